// What the packaging hands to the launchers of GroupNorm, and what they answer. No torch here.
//
// Every field takes 8 bytes: Python packs a call in one go (agent/kernels/group_norm/operator.py).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright::group_norm {

enum Dtype : int64_t { kFloat32 = 0, kFloat16 = 1, kBFloat16 = 2 };
enum Layout : int64_t { kContiguous = 0, kChannelsLast = 1 };  // memory order [n][channel][position] | [n][position][channel]
enum Act : int64_t { kNone = 0, kSilu = 1, kGelu = 2 /* erf */, kRelu = 3, kTanh = 4, kHardswish = 5 };
// kAuto chooses. kStreamed: sm_90, groups too large for a block; kClustered: sm_90, groups that a cluster of blocks holds.
enum Path : int64_t { kAuto = 0, kPortable = 1, kStreamed = 2, kClustered = 3 };

// z = (x - mean) * rstd * weight + bias (+ residual);  y = act(z).   (residual is added BEFORE the activation, as ResNet does)
struct Forward {
    const void* x;          // dtype, in `layout`; any alignment of an element (unaligned views happen)
    const void* residual;   // dtype, same layout as x; or null
    const void* weight;     // param_dtype [channels]; or null (then 1)
    const void* bias;       // param_dtype [channels]; or null (then 0)
    void* y;                // dtype, same layout; never aliases x (may be assumed __restrict__)
    float* mean;            // [n, groups]; null: not wanted (inference)
    float* rstd;            // [n, groups]; null together with mean
    void* workspace;        // forward_workspace(args) bytes, 256-aligned, contents undefined on entry; null when 0
    int64_t n, channels, spatial, groups;   // spatial = product of the dimensions after channels (1 for 2-D); any may make the tensor empty
    int64_t dtype, param_dtype;             // param_dtype is dtype or kFloat32
    int64_t layout, act, path;
    double eps;
    cudaStream_t stream;
    int64_t device;         // ordinal; already current when a launcher is called
};

// With z recomputed where act != kNone:  dz = dy * act'(z);  dresidual = dz;  dweight = sum dz * xhat;  dbias = sum dz;  dx = ...
struct Backward {
    const void* dy;         // dtype, same layout as x
    const void* x;
    const void* residual;   // the forward's, or null; only read where act != kNone
    const void* weight;     // or null
    const void* bias;       // or null
    const float* mean;      // [n, groups], as the forward gave them
    const float* rstd;
    void* dx;               // dtype, same layout; null: not wanted
    void* dresidual;        // dtype; null: not wanted (with kNone Python hands out dy itself, so always null then)
    void* dweight;          // param_dtype [channels]; null: not wanted
    void* dbias;            // param_dtype [channels]; null: not wanted
    void* workspace;        // backward_workspace(args) bytes, as above
    int64_t n, channels, spatial, groups;
    int64_t dtype, param_dtype;
    int64_t layout, act, path;
    cudaStream_t stream;
    int64_t device;
};

int64_t forward_workspace(const Forward& args);    // bytes; pointers in args are not read, null-ness of mean/weight... may be
int64_t backward_workspace(const Backward& args);
int64_t forward_path(const Forward& args);         // the Path that kAuto stands for here (for info() and the bench)
int64_t backward_path(const Backward& args);
cudaError_t forward(const Forward& args);          // cudaErrorInvalidValue for what it cannot do; else the launches' error
cudaError_t backward(const Backward& args);
}  // namespace kernelwright::group_norm
