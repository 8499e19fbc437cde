/* paths: along which paths objects are kept, those that read alike as one.

   The path of an object is that of the search (retain.h): a shortest one from the first kind of root that leads to it. Its
   hash is made from that of its parent, from the roots down, for those alone that lead to something selected:

       root ─► dict ─► Registry ─► dict ─► dict ─► Session      module app.registry ._sessions [*]
        h₀      h₀        h₁        h₁      h₂       h₃            a step that is not shown leaves the hash as it is

   From the third object of one type in a row on, it stays as well: a list of a million links is one path. */
#ifndef HEAPTOP_PATHS_H
#define HEAPTOP_PATHS_H

#include "query/answering.h"

enum { PATH_STEPS = 64 };

struct paths {
    uint64_t *hashes; /* [rows] of what leads to something selected; 0: not made */
    uint32_t *shown;  /* [rows] the nearest one on the way that is shown: itself, mostly */
    uint8_t *depths;  /* [rows] steps shown, up to PATH_STEPS; 0: not made */
    uint32_t rows;
    bool beginnings;
};

/* Make those of the selection. Whether there was memory; paths_close is right after either. */
bool paths_open(struct paths *p, struct answering *a);
void paths_close(struct paths *p);

/* The same by beginnings: what is behind the first item of a container, or the third link of a chain, has the path of that. Each
   object of the selection is visited as soon as it has its path, those reached first before others; false: give up. */
typedef bool (*paths_visit)(void *context, struct answering *a, const struct paths *p, uint32_t number);
bool paths_open_beginnings(struct paths *p, struct answering *a, paths_visit visit, void *context);

/* The number by which the path of a selected object goes, its type being part of it. */
uint64_t paths_key(const struct paths *p, struct answering *a, uint32_t number);

/* Note an object that is kept along a path. */
void paths_remember(struct paths_known *known, uint64_t key, uint32_t number);
void paths_forget(struct paths_known *known);

/* Deselect what is kept along other paths than these. Whether there was memory. */
bool paths_narrow(struct answering *a, const struct numbers *keys);

/* The label of the step to an object, for what is in no order. */
struct label paths_label(struct heap *h, uint32_t number);

/* The same of what refers, for heap_label and heap_reference, where labels of its references depend on it; else NULL. ``label``:
   room for it. */
const struct label *paths_before(struct heap *h, uint32_t from, struct label *label);

/* As labels_write; of a step that is not shown on the way, what the object is to the one before it. */
uint32_t paths_write_label(const struct label *label, bool values, char text[LABEL_BYTES]);

struct alike; /* alike.h */

/* The steps to an object, as an array of protocol/images.py's Step, and the address of what each leads to: of paths that stand
   for several objects, only where ``alike`` has found that it is one, and that of the last step where ``is_one``. ``alike`` NULL:
   of all of them. False when there is no memory, or when it was stopped: so are these two. */
bool paths_pack(struct answering *a, uint32_t number, const struct alike *alike, bool is_one);

/* Note these steps for that. */
bool paths_note(struct answering *a, uint32_t number, struct alike *alike);

/* Find who else has the steps noted; where it was stopped on the way, no address is right (alike_is_one). */
void paths_find_alike(const struct paths *p, struct answering *a, struct alike *alike);

/* Their labels as one str, a blank between two: "module app.cache ._sessions [*]". The label of the first, and what
   has that reference (places.h). */
bool paths_pack_text(struct answering *a, uint32_t number, struct label *first, uint32_t *from);

#endif
