// What the packaging hands to the launcher, and what it answers. No torch here.
//
// c = conv2d(x, weight) + bias, 3x3, stride 1, no padding; z = GroupNorm(c) * gamma + beta;
// y = logsumexp over the channels of c + hardswish(tanh(z)). All tensors are contiguous float32.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright::conv_logsumexp {

enum Path : int64_t {
    kAuto = 0,
    kPortable = 1,    // float multiply-adds; c is stored once
    kRecomputed = 2,  // sm_90a: tensor cores, c is computed twice and never stored
};

// Every field takes 8 bytes: Python packs a call in one go.
struct Forward {
    const float* x;       // [n, in_channels, height, width]
    const float* weight;  // [channels, in_channels, 3, 3]
    const float* bias;    // [channels], or null: 0
    const float* gamma;   // [channels], or null: 1
    const float* beta;    // [channels], or null: 0
    float* y;             // [n, height - 2, width - 2]
    void* workspace;      // forward_workspace(args) bytes, on 256
    int64_t n, in_channels, channels, height, width, groups, path;
    double eps;
    cudaStream_t stream;
    int64_t device;
};

// dc, the gradient of c, by float multiply-adds on every GPU; those of x, weight and bias follow from it.
struct Backward {
    const float* dy;      // [n, height - 2, width - 2], as y
    const float* x;       // these as in Forward
    const float* weight;
    const float* bias;
    const float* gamma;
    const float* beta;
    const float* y;       // the forward direction's
    float* dc;            // [n, channels, height - 2, width - 2]
    float* sums;          // [2, n, channels]: of dbeta and dgamma, those of each image
    void* workspace;      // backward_workspace(args) bytes, on 256
    int64_t n, in_channels, channels, height, width, groups;
    double eps;
    cudaStream_t stream;
    int64_t device;
};

}  // namespace kernelwright::conv_logsumexp
