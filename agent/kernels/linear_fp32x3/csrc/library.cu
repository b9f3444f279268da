#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(linear, forward, Forward)
KW_LAUNCHER(linear, split, Split)
KW_QUESTION(linear, forward_workspace, Forward)
KW_QUESTION(linear, packed_bytes, Split)
