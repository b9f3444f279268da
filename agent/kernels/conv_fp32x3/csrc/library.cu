#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(conv, forward, Forward)
KW_QUESTION(conv, forward_workspace, Forward)
