// Arguments of the launchers. This header does not use torch.
//
// c = conv2d(x, weight) + bias, 3x3, stride 1, no padding; z = GroupNorm(c) * gamma + beta;
// y = logsumexp over the channels of c + hardswish(tanh(z)). All tensors are contiguous float32.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright::conv_logsumexp {

enum Path : int64_t {
    kAuto = 0,
    kPortable = 1,    // float multiply-adds; c is stored
    kRecomputed = 2,  // sm_90a tensor cores; c is computed twice and never stored
};

// Arguments of the forward. Every field takes 8 bytes, since Python packs the struct in one call.
struct Forward {
    const float* x;       // [n, in_channels, height, width]
    const float* weight;  // [channels, in_channels, 3, 3]
    const float* bias;    // [channels], or null: 0
    const float* gamma;   // [channels], or null: 1
    const float* beta;    // [channels], or null: 0
    float* y;             // [n, height - 2, width - 2]
    void* workspace;      // forward_workspace(args) bytes, 256-aligned
    int64_t n, in_channels, channels, height, width, groups, path;
    double eps;
    cudaStream_t stream;
    int64_t device;
};

// Arguments of the backward, which computes the gradient dc of c by float multiply-adds on every GPU. The caller
// derives the gradients of x, weight and bias from dc.
struct Backward {
    const float* dy;      // [n, height - 2, width - 2]
    const float* x;       // x, weight, bias, gamma and beta as in Forward
    const float* weight;
    const float* bias;
    const float* gamma;
    const float* beta;
    const float* y;       // result of the forward
    float* dc;            // [n, channels, height - 2, width - 2]
    float* sums;          // [2, n, channels]: dbeta and dgamma of each image
    void* workspace;      // backward_workspace(args) bytes, 256-aligned
    int64_t n, in_channels, channels, height, width, groups;
    double eps;
    cudaStream_t stream;
    int64_t device;
};

}  // namespace kernelwright::conv_logsumexp
