/* Nothing of its own: the native core's packer alone, for tests to call. */
#include "pack.h"

const char *core_pack_version(void) { return VERSION; }
