#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(linear_group_norm_min_bias, forward, Forward)
KW_QUESTION(linear_group_norm_min_bias, forward_workspace, Forward)
