#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(embedding_norm, forward, Forward)
KW_LAUNCHER(embedding_norm, table_backward, TableBackward)
