# about = "The blocks that sum the squared gradient store their part instead of adding it: one part clips all."
# section = "mismatch"
# problem = "lamb_step"
# causes = ["partial-sums-not-combined", "lost-lanes", "lost-last-block", "statistics-over-wrong-axes", "wrong-divisor", "scatter-overwrites"]
# says = ["block|partial|part of|combin|norm|sum|stride|lane"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

lamb_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <vector>

#define THREADS 64

__device__ float block_sum(float v, float* buffer) {
    buffer[threadIdx.x] = v;
    __syncthreads();
    for (int s = THREADS / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) buffer[threadIdx.x] += buffer[threadIdx.x + s];
        __syncthreads();
    }
    float r = buffer[0];
    __syncthreads();
    return r;
}

__global__ void grad_norm_kernel(const float* grad, float* norm_sq, int n) {
    __shared__ float buffer[THREADS];
    float s = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += grad[i] * grad[i];
    s = block_sum(s, buffer);
    if (threadIdx.x == 0 && blockIdx.x == 0) *norm_sq = s;
}

__global__ void lamb_kernel(const float* weight, const float* grad, const float* m_in, const float* v_in, const int64_t* steps,
                            const float* norm_sq, float* w_out, float* m_out, float* v_out, int width, float lr, float beta1,
                            float beta2, float eps, float decay, float max_norm) {
    extern __shared__ float update[];
    __shared__ float buffer[THREADS];
    const int row = blockIdx.x;
    const float clip = fminf(max_norm / (sqrtf(*norm_sq) + 1e-6f), 1.0f);
    const float t = (float)(steps[row] + 1);
    const float c1 = 1.0f - powf(beta1, t);
    const float c2 = 1.0f - powf(beta2, t);
    float w_sq = 0.0f, u_sq = 0.0f;
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        const int k = row * width + i;
        const float g = grad[k] * clip;
        const float m = beta1 * m_in[k] + (1.0f - beta1) * g;
        const float v = beta2 * v_in[k] + (1.0f - beta2) * g * g;
        m_out[k] = m;
        v_out[k] = v;
        const float u = (m / c1) / (sqrtf(v / c2) + eps) + decay * weight[k];
        update[i] = u;
        w_sq += weight[k] * weight[k];
        u_sq += u * u;
    }
    w_sq = block_sum(w_sq, buffer);
    u_sq = block_sum(u_sq, buffer);
    const float trust = sqrtf(w_sq) / sqrtf(u_sq);
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        const int k = row * width + i;
        w_out[k] = weight[k] - lr * trust * update[i];
    }
}

std::vector<torch::Tensor> lamb_step(torch::Tensor weight, torch::Tensor grad, torch::Tensor m, torch::Tensor v,
                                     torch::Tensor steps, double lr, double beta1, double beta2, double eps, double decay,
                                     double max_norm) {
    const int rows = weight.size(0), width = weight.size(1);
    auto w_out = torch::empty_like(weight);
    auto m_out = torch::empty_like(m);
    auto v_out = torch::empty_like(v);
    auto norm_sq = torch::zeros({1}, weight.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    grad_norm_kernel<<<4, THREADS, 0, stream>>>(grad.data_ptr<float>(), norm_sq.data_ptr<float>(), rows * width);
    lamb_kernel<<<rows, THREADS, width * sizeof(float), stream>>>(
        weight.data_ptr<float>(), grad.data_ptr<float>(), m.data_ptr<float>(), v.data_ptr<float>(), steps.data_ptr<int64_t>(),
        norm_sq.data_ptr<float>(), w_out.data_ptr<float>(), m_out.data_ptr<float>(), v_out.data_ptr<float>(), width, (float)lr,
        (float)beta1, (float)beta2, (float)eps, (float)decay, (float)max_norm);
    return {w_out, m_out, v_out};
}
"""

lamb_header = """
#include <vector>
std::vector<torch::Tensor> lamb_step(torch::Tensor weight, torch::Tensor grad, torch::Tensor m, torch::Tensor v,
                                     torch::Tensor steps, double lr, double beta1, double beta2, double eps, double decay,
                                     double max_norm);
"""

lamb = load_inline(name="lamb_step_ext", cpp_sources=lamb_header, cuda_sources=lamb_source, functions=["lamb_step"])


class ModelNew(nn.Module):
    def __init__(self, rate, beta1, beta2, eps, decay, most):
        super().__init__()
        self.settings = (rate, beta1, beta2, eps, decay, most)

    def forward(self, weight, grad, first, second, steps):
        tensors = [t.contiguous() for t in (weight, grad, first, second, steps)]
        w, m, v = lamb.lamb_step(*tensors, *self.settings)
        return w, m, v
