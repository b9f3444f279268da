#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(layer_norm, forward, Forward)
KW_LAUNCHER(layer_norm, backward, Backward)
KW_QUESTION(layer_norm, backward_workspace, Backward)
