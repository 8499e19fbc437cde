/* piece: how a heap travels into a file: answers to DUMP, one after the other.

       piece     head │ texts new in it │ labels new in it │ places new in it │ ``count`` records of its section

       section   KINDS     address of the type, its number, sorts, noun, bytes before an object
                 OBJECTS   address, kind, size, generation, length, notes, references (how many)
                 FRAMES    label, place or 0, references: pseudo-objects
                 EDGES     number referred to, label: in the order of the rows
                 CALLS     kind, roots (how many): what the search was begun with, in this order
                 ROOTS     number, label: in the order of the calls

   Sections come in this order, each from its beginning to its end. Numbers are written 7 bits a byte, the lowest first, the
   highest bit saying that more follow; signed ones zigzag. An address is the distance from the one before it in the piece, in
   8 bytes; a reference the distance from the number of what has it. Texts, labels and places are numbered as they come. */
#ifndef HEAPTOP_PIECE_H
#define HEAPTOP_PIECE_H

#include <stdint.h>

enum piece_section { PIECE_KINDS, PIECE_OBJECTS, PIECE_FRAMES, PIECE_EDGES, PIECE_CALLS, PIECE_ROOTS, PIECE_SECTIONS };

enum { PIECE_MAGIC = 0x706d7564 /* "dump" */, PIECE_FORMAT = 1, PIECE_TEXT = 600 /* bytes of one at most */ };

struct piece_head {
    uint32_t magic, format, section;
    uint32_t first, count;          /* of the records */
    uint32_t texts, labels, places; /* new ones */
};

/* The fields of an object after its generation, in this order. */
enum { PIECE_HAS_LENGTH = 8, PIECE_HAS_NOTES = 16, PIECE_GENERATION = 7 /* it and 1 */ };

#endif
