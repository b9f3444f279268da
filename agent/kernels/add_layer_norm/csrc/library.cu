#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(add_layer_norm, forward, Forward)
KW_LAUNCHER(add_layer_norm, backward, Backward)
KW_QUESTION(add_layer_norm, backward_workspace, Backward)
