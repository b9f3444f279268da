#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(cumsum, forward, Forward)
KW_QUESTION(cumsum, forward_workspace, Forward)
