#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(reduction, forward, Forward)
KW_QUESTION(reduction, forward_workspace, Forward)
KW_LAUNCHER(reduction, backward, Backward)
