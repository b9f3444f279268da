# about = "The second moment decays by beta1, and the step goes up the gradient."
# section = "mismatch"
# problem = "lamb_step"
# faults = [{causes = ["wrong-decay", "weights-swapped", "wrong-coefficient", "operands-swapped"], says = ["decay|beta|moment|0\\.9|coefficient|weight|swap|exchang"]}, {causes = ["sign-error"], says = ["sign|negat|minus|plus|subtract|add|up"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <c10/cuda/CUDAStream.h>
#include <tuple>

struct Rates { float lr, b1, b2, eps, decay, most; };

__device__ float warp_total(float v) {
    #pragma unroll
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

// one block: the factor that clips the gradient
__global__ void clip_factor(const float* g, float* factor, int n, float most) {
    __shared__ float warps[32];
    float s = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s = fmaf(g[i], g[i], s);
    s = warp_total(s);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x < 32) {
        s = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0.f;
        s = warp_total(s);
        if (threadIdx.x == 0) *factor = fminf(most / (sqrtf(s) + 1e-6f), 1.f);
    }
}

// two elements a thread: both moments and the direction of the step
__global__ void moments(const float2* w, const float2* g, const float2* m, const float2* v, const int64_t* steps,
                        const float* factor, float2* m_new, float2* v_new, float2* u, int pairs, int per_row, Rates r) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += gridDim.x * blockDim.x) {
        const int t = 1 + (int)steps[i / per_row];
        const float fix1 = 1.f - powf(r.b1, t), fix2 = 1.f - powf(r.b2, t);
        const float gx = g[i].x * *factor, gy = g[i].y * *factor;
        const float2 a = make_float2(r.b1 * m[i].x + (1.f - r.b1) * gx, r.b1 * m[i].y + (1.f - r.b1) * gy);
        const float2 b = make_float2(r.b1 * v[i].x + (1.f - r.b1) * gx * gx, r.b1 * v[i].y + (1.f - r.b1) * gy * gy);
        m_new[i] = a;
        v_new[i] = b;
        u[i] = make_float2(a.x / fix1 / (sqrtf(b.x / fix2) + r.eps) + r.decay * w[i].x,
                           a.y / fix1 / (sqrtf(b.y / fix2) + r.eps) + r.decay * w[i].y);
    }
}

// a warp per row: the trust ratio, then the step
__global__ void apply(const float* w, const float* u, float* out, int rows, int width, Rates r) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    float ww = 0.f, uu = 0.f;
    for (int i = row * width + threadIdx.x; i < (row + 1) * width; i += 32) {
        ww += w[i] * w[i];
        uu += u[i] * u[i];
    }
    const float trust = sqrtf(warp_total(ww) / warp_total(uu));
    for (int i = row * width + threadIdx.x; i < (row + 1) * width; i += 32) out[i] = w[i] + r.lr * trust * u[i];
}

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> lamb(torch::Tensor w, torch::Tensor g, torch::Tensor m, torch::Tensor v,
                                                             torch::Tensor steps, double lr, double b1, double b2, double eps,
                                                             double decay, double most) {
    const int rows = w.size(0), width = w.size(1), n = rows * width;
    TORCH_CHECK(width % 2 == 0, "rows of an odd width");
    const Rates r{(float)lr, (float)b1, (float)b2, (float)eps, (float)decay, (float)most};
    auto factor = torch::empty({1}, w.options());
    auto out = torch::empty_like(w), m_new = torch::empty_like(m), v_new = torch::empty_like(v), u = torch::empty_like(w);
    auto pairs = [](torch::Tensor& t) { return reinterpret_cast<float2*>(t.data_ptr<float>()); };
    auto stream = c10::cuda::getCurrentCUDAStream();
    clip_factor<<<1, 256, 0, stream>>>(g.data_ptr<float>(), factor.data_ptr<float>(), n, r.most);
    moments<<<3, 64, 0, stream>>>(pairs(w), pairs(g), pairs(m), pairs(v), steps.data_ptr<int64_t>(), factor.data_ptr<float>(),
                                  pairs(m_new), pairs(v_new), pairs(u), n / 2, width / 2, r);
    apply<<<(rows + 3) / 4, dim3(32, 4), 0, stream>>>(w.data_ptr<float>(), u.data_ptr<float>(), out.data_ptr<float>(), rows, width, r);
    return {out, m_new, v_new};
}
"""
CPP = """
#include <tuple>
std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> lamb(torch::Tensor w, torch::Tensor g, torch::Tensor m, torch::Tensor v,
                                                             torch::Tensor steps, double lr, double b1, double b2, double eps,
                                                             double decay, double most);
"""
steps_ext = load_inline(name="lamb_pairs", cpp_sources=CPP, cuda_sources=SOURCE, functions=["lamb"])


class ModelNew(nn.Module):
    def __init__(self, rate, beta1, beta2, eps, decay, most):
        super().__init__()
        self.settings = rate, beta1, beta2, eps, decay, most

    def forward(self, weight, grad, first, second, steps):
        return steps_ext.lamb(weight.contiguous(), grad.contiguous(), first.contiguous(), second.contiguous(),
                              steps.contiguous(), *self.settings)
