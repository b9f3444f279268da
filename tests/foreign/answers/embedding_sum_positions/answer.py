import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

emb_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// block = one token
template <typename index_type>
__global__ void embed_kernel(const index_type* __restrict__ ids, const float* __restrict__ tok,
                             const float* __restrict__ pos, float* __restrict__ out,
                             int T, int dim, float scale) {
    const size_t token = blockIdx.x;
    const int t = token % T;
    const float* a = tok + (size_t)ids[token] * dim;
    const float* b = pos + (size_t)t * dim;
    float* o = out + token * dim;
    if (dim % 4 == 0) {
        for (int i = threadIdx.x; i < dim / 4; i += blockDim.x) {
            const float4 u = reinterpret_cast<const float4*>(a)[i];
            const float4 v = reinterpret_cast<const float4*>(b)[i];
            reinterpret_cast<float4*>(o)[i] =
                make_float4(u.x * scale + v.x, u.y * scale + v.y, u.z * scale + v.z, u.w * scale + v.w);
        }
    } else {
        for (int i = threadIdx.x; i < dim; i += blockDim.x) o[i] = a[i] * scale + b[i];
    }
}

torch::Tensor embed(torch::Tensor ids, torch::Tensor tok, torch::Tensor pos, double scale) {
    TORCH_CHECK(ids.dim() == 2, "ids must be (batch, time)");
    TORCH_CHECK(ids.size(1) <= pos.size(0), "sequence longer than the position table");
    auto ic = ids.contiguous();
    auto tc = tok.contiguous();
    auto pc = pos.contiguous();
    const int B = ic.size(0), T = ic.size(1), dim = tc.size(1);
    auto out = torch::empty({B, T, dim}, tc.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    if (ic.scalar_type() == torch::kInt64) {
        embed_kernel<int64_t><<<B * T, 192, 0, stream>>>(ic.data_ptr<int64_t>(), tc.data_ptr<float>(), pc.data_ptr<float>(),
                                                         out.data_ptr<float>(), T, dim, (float)scale);
    } else {
        TORCH_CHECK(ic.scalar_type() == torch::kInt32, "ids must be int32 or int64");
        embed_kernel<int><<<B * T, 192, 0, stream>>>(ic.data_ptr<int>(), tc.data_ptr<float>(), pc.data_ptr<float>(),
                                                     out.data_ptr<float>(), T, dim, (float)scale);
    }
    return out;
}
"""

emb = load_inline(
    name="embed_tok_pos",
    cpp_sources="torch::Tensor embed(torch::Tensor ids, torch::Tensor tok, torch::Tensor pos, double scale);",
    cuda_sources=emb_src,
    functions=["embed"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    # dropout does nothing in eval mode, which is how this model runs
    def __init__(self, vocab, dim, max_len, p=0.1):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.scale = dim ** 0.5
        self.eval()

    def forward(self, ids):
        return emb.embed(ids, self.tok.weight, self.pos.weight, self.scale)
