/* opaque: types that own memory of a library whose structures are its secret. */
#include "heap/owners.h"

static struct owned measure(PyObject *o, struct owners_seen *seen) {
    (void)o, (void)seen;
    return OWNED_UNKNOWN;
}

static const char *const types[] = {
    "_lzma.LZMACompressor",
    "_lzma.LZMADecompressor",
    "_ssl._SSLContext",
    "_ssl._SSLSocket",
    "_zstd.ZstdCompressor",
    "_zstd.ZstdDecompressor",
    "builtins.PyDataFrame", /* of polars, in Rust */
    "builtins.PySeries",
    "compression.zstd.ZstdCompressor",
    "compression.zstd.ZstdDecompressor",
    "h5py.h5d.DatasetID",
    "h5py.h5f.FileID",
    "lxml.etree._Document",
    "sqlite3.Connection",
    NULL,
};

const struct owner owner_opaque = {types, 0, measure, .maps = false};
