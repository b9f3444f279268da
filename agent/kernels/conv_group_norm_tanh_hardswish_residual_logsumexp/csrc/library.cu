#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(conv_logsumexp, forward, Forward)
KW_QUESTION(conv_logsumexp, forward_workspace, Forward)
KW_QUESTION(conv_logsumexp, forward_path, Forward)
KW_LAUNCHER(conv_logsumexp, backward, Backward)
KW_QUESTION(conv_logsumexp, backward_workspace, Backward)
