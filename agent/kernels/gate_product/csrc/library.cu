#include "../../csrc/library.cuh"
#include "launch.cuh"

KW_LAUNCHER(gate_product, forward, Forward)
KW_LAUNCHER(gate_product, backward, Backward)
