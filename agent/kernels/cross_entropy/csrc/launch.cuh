// Cross entropy of rows of logits, with ignored classes, label smoothing and a z-loss, forward and backward.
//
// loss = lse - (1 - smoothing) * x[target] - smoothing * mean(x) + z_loss * lse^2, and 0 for an ignored row. The row is
// read once forward, for its log-sum-exp, its sum and its target together, and once backward; no probability is stored.
#pragma once

#include "../../csrc/partition.cuh"

namespace kernelwright::cross_entropy {

struct Forward {
    const void* x;
    const int64_t* target;  // [rows]
    float* loss;            // [rows]
    float* lse;             // [rows], or null where it is not wanted
    int64_t rows, length;
    int64_t ignored;  // a target that counts for nothing
    double smoothing, z_loss;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

struct Backward {
    const float* dloss;  // [rows]
    const void* x;
    const int64_t* target;
    const float* lse;
    void* dx;
    int64_t rows, length;
    int64_t ignored;
    double smoothing, z_loss;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kPacks = 4;  // of a row, under way in one thread

template <typename T>
__device__ __forceinline__ float at(const void* x, int64_t place) { return to_float(static_cast<const T*>(x)[place]); }

// A target that is no class makes the row NaN, and reads nothing.
template <typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) losses(Forward args, int64_t packs) {
    __shared__ Partition of_warp[kMaxWarps];
    __shared__ float of_sum[kMaxWarps];
    const int64_t row = blockIdx.x, target = args.target[row];
    const auto* x = static_cast<const Pack<T, V>*>(args.x) + row * packs;
    Partition mine = {-INFINITY, 0.0f};
    float sum = 0.0f;
    for (int64_t first = threadIdx.x; first < packs; first += kPacks * int64_t(blockDim.x)) {
        float tile[kPacks * V], max = -INFINITY;
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            const int64_t place = first + u * int64_t(blockDim.x);
            const bool inside = place < packs;
            Pack<T, V> pack;
            if (inside) pack = x[place];
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                tile[u * V + k] = inside ? to_float(pack.v[k]) : -INFINITY;
                if (inside) sum += tile[u * V + k];
                max = fmaxf(max, tile[u * V + k]);
            }
        }
        const float level = level_of(max);
        float part = 0.0f;
        #pragma unroll
        for (int k = 0; k < kPacks * V; ++k) part += exp_for<T>(tile[k] - level);
        mine = merge(mine, {max, part});
    }
    const Partition all = block_merge(mine, of_warp);
    if (args.smoothing != 0.0) sum = block_reduce<Sum>(sum, of_sum);
    if (threadIdx.x != 0) return;
    const float lse = level_of(all.max) + logf(all.sum);
    if (args.lse != nullptr) args.lse[row] = lse;
    if (target == args.ignored) {
        args.loss[row] = 0.0f;
        return;
    }
    const bool known = target >= 0 && target < args.length;
    const float share = float(args.smoothing);
    const float own = known ? at<T>(args.x, row * args.length + target) : NAN;
    // Of differences, so that a large common offset costs no digits.
    float loss = (1.0f - share) * (lse - own);
    if (share != 0.0f) loss += share * (lse - sum / float(args.length));
    args.loss[row] = loss + float(args.z_loss) * lse * lse;
}

// dx = dloss * (softmax * (1 + 2 * z_loss * lse) - (1 - smoothing) [target] - smoothing / length)
template <typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) slopes(Backward args, int64_t packs) {
    const int64_t row = blockIdx.x, target = args.target[row];
    const auto* x = static_cast<const Pack<T, V>*>(args.x) + row * packs;
    auto* dx = static_cast<Pack<T, V>*>(args.dx) + row * packs;
    const bool counts = target != args.ignored;
    const float given = counts ? args.dloss[row] : 0.0f, lse = args.lse[row];
    const float factor = given * (1.0f + 2.0f * float(args.z_loss) * lse);
    const float everywhere = given * float(args.smoothing) / float(args.length);
    const float there = given * (1.0f - float(args.smoothing));
    #pragma unroll 2
    for (int64_t place = threadIdx.x; place < packs; place += blockDim.x) {
        Pack<T, V> pack;
        if (counts) pack = x[place];
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            float made = 0.0f;
            if (counts) {
                made = factor * exp_for<T>(to_float(pack.v[k]) - lse) - everywhere;
                if (place * V + k == target) made -= there;
            }
            pack.v[k] = from_float<T>(made);
        }
        dx[place] = pack;
    }
}

template <typename T, int V>
cudaError_t launch(const Forward& args) {
    const int64_t packs = args.length / V;
    losses<T, V><<<unsigned(args.rows), block_for(packs, kPacks), 0, args.stream>>>(args, packs);
    return cudaGetLastError();
}

template <typename T, int V>
cudaError_t launch(const Backward& args) {
    const int64_t packs = args.length / V;
    slopes<T, V><<<unsigned(args.rows), block_for(packs, kPacks), 0, args.stream>>>(args, packs);
    return cudaGetLastError();
}

template <typename Arguments>
cudaError_t launch_as(const Arguments& args, bool vectors) {
    if (args.rows > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (vectors && args.length % kVector<T> == 0) return launch<T, kVector<T>>(args);
        return launch<T, 1>(args);
    });
}

inline cudaError_t forward(const Forward& args) { return launch_as(args, aligned(args.x)); }

inline cudaError_t backward(const Backward& args) { return launch_as(args, aligned(args.x) && aligned(args.dx)); }

}  // namespace kernelwright::cross_entropy
