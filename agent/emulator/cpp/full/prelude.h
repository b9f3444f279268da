// torch's own headers for a unit of host or device code, precompiled once.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// These headers define some things only under nvcc that are needed here too: conversions of at::Half to and from
// __half, and RestrictPtrTraits of packed accessors. No other header of torch may take g++ for nvcc.
#include <c10/macros/Macros.h>
#define __CUDACC__ 1
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <ATen/core/TensorAccessor.h>
#undef __CUDACC__

#include <torch/extension.h>

#include "kw/torch_blob.h"
