#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(embedding_norm, forward, Forward)
