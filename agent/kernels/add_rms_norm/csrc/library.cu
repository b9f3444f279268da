#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(add_rms_norm, forward, Forward)
KW_LAUNCHER(add_rms_norm, backward, Backward)
KW_QUESTION(add_rms_norm, backward_workspace, Backward)
