# about = "Divides by n where the unbiased variance divides by n - 1."
# section = "mismatch"
# problem = "var_outer_dims"
# causes = ["biased-variance"]
# says = ["biased|n - 1|n-1|correction|bessel|population|divis|divid"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="channel_var",
    cpp_sources="torch::Tensor channel_var(torch::Tensor x);",
    cuda_sources=r"""
__device__ float2 block_sum2(float2 v, float2* shared) {
    int t = threadIdx.x;
    shared[t] = v;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s) {
            shared[t].x += shared[t + s].x;
            shared[t].y += shared[t + s].y;
        }
        __syncthreads();
    }
    return shared[0];
}

// sums of (x - k) and (x - k)^2 with k the first value of the channel
__global__ void var_kernel(const float* x, float* out, int batch, int channels, int length) {
    __shared__ float2 shared[32];
    int c = blockIdx.x, n = batch * length;
    float k = x[c * length];
    float2 acc = make_float2(0.f, 0.f);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float d = x[((i / length) * channels + c) * length + i % length] - k;
        acc.x += d;
        acc.y += d * d;
    }
    float2 total = block_sum2(acc, shared);
    if (threadIdx.x == 0) out[c] = (total.y - total.x * total.x / n) / n;
}

torch::Tensor channel_var(torch::Tensor x) {
    auto out = torch::empty({x.size(1)}, x.options());
    var_kernel<<<x.size(1), 32>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(0), x.size(1), x.size(2));
    return out;
}
""",
    functions=["channel_var"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.channel_var(x.contiguous())
