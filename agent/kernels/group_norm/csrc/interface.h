// Arguments and launchers of GroupNorm, independent of torch.
//
// Every field has 8 bytes: Python packs a call in a single step (agent/kernels/group_norm/operator.py).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright::group_norm {

enum Dtype : int64_t { kFloat32 = 0, kFloat16 = 1, kBFloat16 = 2 };
enum Layout : int64_t { kContiguous = 0, kChannelsLast = 1 };  // memory order [n][channel][position] | [n][position][channel]
enum Act : int64_t { kNone = 0, kSilu = 1, kGelu = 2 /* erf */, kRelu = 3, kTanh = 4, kHardswish = 5 };
// Paths of a call. kAuto selects one. kStreamed: sm_90, groups too large for a block. kClustered: sm_90, groups held by
// a cluster of blocks.
enum Path : int64_t { kAuto = 0, kPortable = 1, kStreamed = 2, kClustered = 3 };

// z = (x - mean) * rstd * weight + bias (+ residual);  y = act(z).   The residual is added BEFORE the activation, as in
// ResNet.
struct Forward {
    const void* x;          // dtype, in `layout`; aligned to an element only (views may be unaligned)
    const void* residual;   // dtype, same layout as x; or null
    const void* weight;     // param_dtype [channels]; or null (then 1)
    const void* bias;       // param_dtype [channels]; or null (then 0)
    void* y;                // dtype, same layout as x; never aliases x (may be assumed __restrict__)
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

// z is recomputed unless act is kNone:  dz = dy * act'(z);  dresidual = dz;  dweight = sum dz * xhat;  dbias = sum dz;
// dx = ...
struct Backward {
    const void* dy;         // dtype, same layout as x
    const void* x;
    const void* residual;   // that of the forward, or null; only read unless act is kNone
    const void* weight;     // or null
    const void* bias;       // or null
    const float* mean;      // [n, groups], from the forward
    const float* rstd;
    void* dx;               // dtype, same layout as x; null: not wanted
    void* dresidual;        // dtype; null: not wanted (always null with kNone: Python returns dy itself then)
    void* dweight;          // param_dtype [channels]; null: not wanted
    void* dbias;            // param_dtype [channels]; null: not wanted
    void* workspace;        // backward_workspace(args) bytes, 256-aligned, contents undefined on entry; null when 0
    int64_t n, channels, spatial, groups;
    int64_t dtype, param_dtype;
    int64_t layout, act, path;
    cudaStream_t stream;
    int64_t device;
};

int64_t forward_workspace(const Forward& args);    // bytes; pointers in args are not read, only compared with null
int64_t backward_workspace(const Backward& args);
int64_t forward_path(const Forward& args);         // the Path that kAuto selects for the call (for info() and the benchmark)
int64_t backward_path(const Backward& args);
cudaError_t forward(const Forward& args);          // cudaErrorInvalidValue for an unsupported call, or a launch's error
cudaError_t backward(const Backward& args);
}  // namespace kernelwright::group_norm
