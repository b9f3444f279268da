// Softmax of [outer, length, inner] over length, forward and backward.
#pragma once

#include "backward.cuh"
