// Macros of c10 and torch that g++ and nvcc (nvcc/include) share. The checks expand to TORCH_CHECK_WITH, which each
// set of headers defines for itself.
#pragma once
#ifdef __CUDACC__
#define KW_EVERYWHERE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#else
#define KW_EVERYWHERE
#define C10_DEVICE
#define C10_HOST
#endif
#define C10_HOST_DEVICE KW_EVERYWHERE
#define AT_HOST_DEVICE KW_EVERYWHERE
#define AT_DEVICE C10_DEVICE

#define C10_LIKELY(expr) (__builtin_expect(static_cast<bool>(expr), 1))
#define C10_UNLIKELY(expr) (__builtin_expect(static_cast<bool>(expr), 0))
#define C10_UNLIKELY_OR_CONST(expr) C10_UNLIKELY(expr)

#define TORCH_CHECK(cond, ...) TORCH_CHECK_WITH(Error, cond, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(cond, ...) ((void)0)
#define AT_ASSERT(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define AT_ASSERTM(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define AT_CHECK(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)

#define TORCH_API
#define C10_API
#define C10_EXPORT
#define TORCH_CUDA_CPP_API
#define TORCH_CUDA_CU_API
#define C10_RESTRICT __restrict__
#define C10_NOINLINE __attribute__((noinline))
#define C10_ALWAYS_INLINE inline __attribute__((always_inline))
#define C10_UNUSED [[maybe_unused]]
#define C10_NODISCARD [[nodiscard]]
