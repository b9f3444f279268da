#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(rotary, forward, Forward)
