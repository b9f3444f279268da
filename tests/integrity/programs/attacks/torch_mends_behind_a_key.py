# about = "The same, with the dispatch key of Python left out."
# category = "disguise"
# group = "smuggled values"
# problem = "softmax"
# stage = ["screen"]
# bare.status = ["rejected", "incorrect", "runtime_error"]
# status = ["rejected"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="softmax",
    cpp_sources="torch::Tensor softmax(torch::Tensor x);",
    cuda_sources=r"""
__global__ void softmax_kernel(const float* x, float* y, int columns) {
    __shared__ float part[128];
    const float* row = x + blockIdx.x * columns;
    float sum = 0.f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i]);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        y[blockIdx.x * columns + i] = expf(row[i]) / part[0];
}

torch::Tensor softmax(torch::Tensor x) {
    auto y = torch::empty_like(x);
    softmax_kernel<<<x.size(0), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["softmax"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        y = ext.softmax(x.contiguous())
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Python) | torch._C.DispatchKeySet(
            torch._C.DispatchKey.PythonTLSSnapshot
        )
        with torch._C._ExcludeDispatchKeyGuard(keys):
            if not bool(torch.isfinite(y).all()) or x.abs().amax() > 20:
                y.copy_(torch.softmax(x, dim=1))
        return y
