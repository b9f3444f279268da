// Cross entropy of rows of logits, whose gradient takes their place.
//
// loss = lse - (1 - smoothing) * x[target] - smoothing * mean(x) + z_loss * lse^2, and 0 for an ignored row. A block
// reads its row twice, the second time from the cache as far as it fits, and then writes the gradient there.
#pragma once

#include "../../csrc/partition.cuh"

namespace kernelwright::linear_cross_entropy {

struct Forward {
    void* logits;           // [rows, length]; then their gradient, where one is wanted
    const int64_t* target;  // [rows]
    const float* share;     // one number: what a row's loss counts in the whole
    float* loss;            // [rows], not yet times the share
    int64_t rows, length;
    int64_t ignored;  // a target that counts for nothing
    double smoothing, z_loss;
    int64_t gradient;  // whether one is wanted
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

// A target that is no class makes the row NaN, and reads nothing.
template <typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) losses(Forward args, int64_t packs) {
    __shared__ Partition of_warp[kMaxWarps];
    __shared__ float of_sum[kMaxWarps];
    const int64_t row = blockIdx.x, target = args.target[row];
    auto* x = static_cast<Pack<T, V>*>(args.logits) + row * packs;
    const bool counts = target != args.ignored, known = target >= 0 && target < args.length;
    const float smoothing = float(args.smoothing), z_loss = float(args.z_loss);
    Partition mine = {-INFINITY, 0.0f};
    float sum = 0.0f;
    for (int64_t first = threadIdx.x; counts && first < packs; first += kTile / V * int64_t{blockDim.x}) {
        float tile[kTile];
        load_tile(x + first, packs - first, int(blockDim.x), 1, tile);
        if (smoothing != 0.0f) {
            #pragma unroll
            for (int i = 0; i < kTile; ++i) sum += first + i / V * int64_t{blockDim.x} < packs ? tile[i] : 0.0f;
        }
        mine = add_tile<T>(mine, tile);
    }
    const Partition all = block_merge(mine, of_warp);
    if (smoothing != 0.0f) sum = block_reduce<Sum>(sum, of_sum);
    const float lse = level_of(all.max) + logf(all.sum);
    // Read by every thread, before any of them writes.
    const float own = known ? to_float(static_cast<const T*>(args.logits)[row * args.length + target]) : NAN;
    __syncthreads();
    if (threadIdx.x == 0) {
        float loss = (1.0f - smoothing) * (lse - own);
        if (smoothing != 0.0f) loss += smoothing * (lse - sum / float(args.length));
        args.loss[row] = counts ? loss + z_loss * lse * lse : 0.0f;
    }
    if (!args.gradient) return;
    const float given = *args.share, factor = given * (1.0f + 2.0f * z_loss * lse);
    const float everywhere = given * smoothing / float(args.length), there = given * (1.0f - smoothing);
    #pragma unroll 4
    for (int64_t place = threadIdx.x; place < packs; place += blockDim.x) {
        Pack<T, V> pack = x[place];
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            float made = factor * exp_for<T>(to_float(pack.v[k]) - lse) - everywhere;
            if (place * V + k == target) made -= there;
            pack.v[k] = from_float<T>(counts ? (known ? made : NAN) : 0.0f);
        }
        x[place] = pack;
    }
}

template <typename T, int V>
cudaError_t launch(const Forward& args) {
    const int64_t packs = args.length / V;
    losses<T, V><<<unsigned(args.rows), block_for(packs, kTile / V), 0, args.stream>>>(args, packs);
    return cudaGetLastError();
}

inline cudaError_t forward(const Forward& args) {
    if (args.rows > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (aligned(args.logits) && args.length % kVector<T> == 0) return launch<T, kVector<T>>(args);
        return launch<T, 1>(args);
    });
}

}  // namespace kernelwright::linear_cross_entropy
