#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(group_norm, forward, Forward)
KW_LAUNCHER(group_norm, backward, Backward)
KW_QUESTION(group_norm, forward_workspace, Forward)
KW_QUESTION(group_norm, backward_workspace, Backward)
KW_QUESTION(group_norm, forward_path, Forward)
KW_QUESTION(group_norm, backward_path, Backward)
