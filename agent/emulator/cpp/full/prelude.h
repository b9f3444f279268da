// torch's own headers, precompiled once for all units of host and device code.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// The headers below define some names only under nvcc: conversions of at::Half to and from __half, and
// RestrictPtrTraits of packed accessors. __CUDACC__ enables them, and is undefined again because no other header of
// torch may see it.
#include <c10/macros/Macros.h>
#define __CUDACC__ 1
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <ATen/core/TensorAccessor.h>
#undef __CUDACC__

#include <torch/extension.h>

#include "kw/torch_blob.h"
