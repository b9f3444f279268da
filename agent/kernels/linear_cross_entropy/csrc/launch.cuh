// Cross entropy of rows of logits, whose gradient overwrites them.
//
// loss = lse - (1 - smoothing) * x[target] - smoothing * mean(x) + z_loss * lse^2, and 0 for an ignored row. A block
// holds its row in registers as far as they go and reads the remaining packs again, from L2 where they are still there.
// It then writes the gradient in place.
#pragma once

#include "../../csrc/launched.cuh"
#include "../../csrc/partition.cuh"
#include "../../csrc/stored.cuh"

namespace kernelwright::linear_cross_entropy {

struct Forward {
    void* logits;           // [rows, length]; overwritten by their gradient if it is wanted
    const int64_t* target;  // [rows]
    const float* share;     // one number: weight of a row's loss in the total
    float* loss;            // [rows], before the multiplication by share
    int64_t rows, length;
    int64_t ignored;  // target of ignored rows, whose loss is 0
    double smoothing, z_loss;
    int64_t gradient;  // nonzero if the gradient is wanted
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

template <int V>
constexpr int kHeld = V == 1 ? kTile : 8;  // packs of a row that a thread has in registers

// Computes a row per block. An invalid target makes the row NaN and is not used as an index. The first P packs of each
// thread stay in registers; the remaining packs of the row are read again.
template <int P, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) losses(Forward args, int64_t packs) {
    await_earlier();
    constexpr int N = kTile / V;  // packs of a thread that are reduced together
    static_assert(P % N == 0);
    __shared__ Partition of_warp[kMaxWarps];
    __shared__ float of_sum[kMaxWarps];
    const int64_t row = blockIdx.x, target = args.target[row];
    auto* x = static_cast<Pack<T, V>*>(args.logits) + row * packs;
    const bool counts = target != args.ignored, known = target >= 0 && target < args.length;
    const float smoothing = float(args.smoothing), z_loss = float(args.z_loss);
    const int step = int(blockDim.x);
    const int64_t rest = threadIdx.x + int64_t{P} * step;
    Partition mine = {-INFINITY, 0.0f};
    float sum = 0.0f;
    Pack<T, V> held[P];
    if (counts) {
        #pragma unroll
        for (int u = 0; u < P; ++u) {
            const int64_t at = threadIdx.x + int64_t{u} * step;
            held[u] = x[at < packs ? at : packs - 1];
        }
        keep_stored(held);
        #pragma unroll
        for (int u = 0; u < P; u += N) {
            float tile[kTile];
            #pragma unroll
            for (int i = 0; i < kTile; ++i) {
                const bool inside = threadIdx.x + int64_t{u + i / V} * step < packs;
                const float value = to_float(held[u + i / V].v[i % V]);
                tile[i] = inside ? value : -INFINITY;
                if (smoothing != 0.0f) sum += inside ? value : 0.0f;
            }
            mine = add_tile<T>(mine, tile);
        }
        keep_stored(held);
        for (int64_t first = rest; first < packs; first += N * step) {
            float tile[kTile];
            load_tile(x + first, packs - first, step, 1, tile);
            if (smoothing != 0.0f) {
                #pragma unroll
                for (int i = 0; i < kTile; ++i) sum += first + i / V * int64_t{step} < packs ? tile[i] : 0.0f;
            }
            mine = add_tile<T>(mine, tile);
        }
    }
    const Partition all = block_merge(mine, of_warp);
    if (smoothing != 0.0f) sum = block_reduce<Sum>(sum, of_sum);
    const float lse = level_of(all.max) + logf(all.sum);
    // Every thread reads the target's logit, before any thread writes.
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
    const auto put = [&](int64_t place, Pack<T, V> pack) {
        const int64_t of_target = target - place * V;
        const int chosen = of_target >= 0 && of_target < V ? int(of_target) : -1;
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            float made = factor * exp_for<T>(to_float(pack.v[k]) - lse) - everywhere;
            if (k == chosen) made -= there;
            pack.v[k] = from_float<T>(counts ? (known ? made : NAN) : 0.0f);
        }
        if (place < packs) x[place] = pack;
    };
    #pragma unroll
    for (int u = 0; u < P; ++u) put(threadIdx.x + int64_t{u} * step, held[u]);
    #pragma unroll 2
    for (int64_t place = rest; place < packs; place += step) put(place, x[place]);
}

template <typename T, int V>
cudaError_t launch(const Forward& args) {
    const int64_t packs = args.length / V;
    const unsigned threads = block_for(packs, kHeld<V>);
    return launched(losses<kHeld<V>, T, V>, unsigned(args.rows), threads, args.stream, args, packs);
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
