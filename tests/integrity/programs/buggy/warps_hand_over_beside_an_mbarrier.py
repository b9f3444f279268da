# about = "Warps meet at an mbarrier, and hand over by another part of shared memory, for which nothing waits."
# category = "races"
# group = "order"
# problem = "row_max"
# status = ["runtime_error"]
# finding = 'shared-race|shared-uninitialised'
# cuda.status = ["incorrect", "runtime_error"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_max",
    cpp_sources="torch::Tensor row_max(torch::Tensor x);",
    cuda_sources=r"""
__device__ __forceinline__ unsigned address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void make(unsigned long long* barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(barrier)) : "memory");
}

__device__ __forceinline__ void arrive(unsigned long long* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(barrier)) : "memory");
}

__device__ __forceinline__ void wait(unsigned long long* barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(address(barrier)),
        "r"(parity)
        : "memory");
}

__global__ void max_kernel(const float* x, float* y, int columns) {
    __shared__ float tops[64];
    __shared__ unsigned long long barrier;
    if (threadIdx.x == 0) make(&barrier);
    __syncthreads();
    if (threadIdx.x == 0) arrive(&barrier);
    wait(&barrier, 0);
    float top = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += 64) top = fmaxf(top, x[blockIdx.x * columns + i]);
    tops[threadIdx.x] = top;
    __syncwarp();
    for (int half = 16; half > 0; half /= 2) {
        if (threadIdx.x % 32 < half) tops[threadIdx.x] = fmaxf(tops[threadIdx.x], tops[threadIdx.x + half]);
        __syncwarp();
    }
    if (threadIdx.x == 32) y[blockIdx.x] = fmaxf(tops[0], tops[32]);
}

torch::Tensor row_max(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    max_kernel<<<x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["row_max"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_max(x.contiguous())
