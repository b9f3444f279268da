// Cross entropy of rows of logits, with ignored classes, label smoothing and a z-loss, forward and backward.
//
// loss = lse - (1 - smoothing) * x[target] - smoothing * mean(x) + z_loss * lse^2, and 0 for an ignored row. The row is
// read once forward, for its log-sum-exp, its sum and its target together, and once backward; no probability is stored.
#pragma once

#include "../../csrc/ragged.cuh"

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

// A target that is no class makes the row NaN, and reads nothing.
template <bool kWhole, int P, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) losses(Forward args) {
    constexpr int N = P * V;
    __shared__ Partition of_warp[kMaxWarps];
    __shared__ float of_sum[kMaxWarps];
    const int64_t index = row_here();
    if (index >= args.rows) return;
    const auto* x = static_cast<const T*>(args.x);
    const int64_t target = args.target[index];
    const bool known = target >= 0 && target < args.length, writes = threadIdx.x == 0;
    const float own = writes && known ? to_float(x[index * args.length + target]) : NAN;
    const Row row = row_at<kWhole, V>(index, args.length);
    const auto* from = reinterpret_cast<const Pack<T, V>*>(x + row.first);
    const int64_t end = end_at<kWhole, V>(row, threadIdx.x);
    float of_end[1] = {end_value(x, end)};
    Partition all = {-INFINITY, 0.0f};
    float sum = end >= 0 ? of_end[0] : 0.0f;
    const int step = int(blockDim.x);
    for (int64_t first = threadIdx.x; first < row.packs; first += P * step) {
        float tile[N];
        load_tile(from + first, row.packs - first, step, 1, tile);
        const int here = int(min(row.packs - first, int64_t{P} * step));
        #pragma unroll
        for (int i = 0; i < N; ++i) {
            if (i / V * step < here) sum += tile[i];
        }
        all = add_tile<T>(all, tile);
    }
    if (!kWhole) all = add_tile<T>(all, of_end);
    all = Block::merged(all, of_warp);
    if (args.smoothing != 0.0) sum = Block::summed(sum, of_sum);
    if (!writes) return;
    const float lse = level_of(all.max) + logf(all.sum);
    if (args.lse != nullptr) args.lse[index] = lse;
    if (target == args.ignored) {
        args.loss[index] = 0.0f;
        return;
    }
    const float share = float(args.smoothing);
    // Of differences, so that a large common offset costs no digits.
    float loss = (1.0f - share) * (lse - own);
    if (share != 0.0f) loss += share * (lse - sum / float(args.length));
    args.loss[index] = loss + float(args.z_loss) * lse * lse;
}

// dx = dloss * (softmax * (1 + 2 * z_loss * lse) - (1 - smoothing) [target] - smoothing / length)
template <bool kWhole, int P, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) slopes(Backward args) {
    const int64_t index = row_here();
    if (index >= args.rows) return;
    const int64_t target = args.target[index];
    const bool counts = target != args.ignored;
    const float given = counts ? args.dloss[index] : 0.0f, lse = args.lse[index];
    const float factor = given * (1.0f + 2.0f * float(args.z_loss) * lse);
    const float everywhere = given * float(args.smoothing) / float(args.length);
    const float there = given * (1.0f - float(args.smoothing));
    const Row row = row_at<kWhole, V>(index, args.length);
    const auto* x = static_cast<const T*>(args.x);
    auto* dx = static_cast<T*>(args.dx);
    const int64_t chosen = index * args.length + target;
    const auto slope = [&](T value, bool is_target) {
        const float made = factor * exp_for<T>(to_float(value) - lse) - everywhere;
        return from_float<T>(!counts ? 0.0f : is_target ? made - there : made);
    };
    const int64_t end = end_at<kWhole, V>(row, threadIdx.x);
    if (end >= 0) dx[end] = slope(counts ? x[end] : T{}, end == chosen);
    const auto* from = reinterpret_cast<const Pack<T, V>*>(x + row.first);
    auto* to = reinterpret_cast<Pack<T, V>*>(dx + row.first);
    const int64_t of_target = chosen - row.first;
    #pragma unroll P
    for (int64_t place = threadIdx.x; place < row.packs; place += blockDim.x) {
        Pack<T, V> pack = {};
        if (counts) pack = from[place];
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = slope(pack.v[k], place * V + k == of_target);
        to[place] = pack;
    }
}

template <bool kWhole, typename T, int V>
cudaError_t launch_rows(const Forward& args) {
    const int64_t packs = args.length / V;
    const auto start = [&](auto kernel, dim3 block) {
        kernel<<<rows_grid(args.rows, block), block, 0, args.stream>>>(args);
        return cudaGetLastError();
    };
    if (packs <= kWarp) return start(losses<kWhole, 1, T, V>, lanes_block<kWhole, V>(packs));
    if (args.rows * packs <= kThreadsAtOnce) return start(losses<kWhole, 1, T, V>, rows_block(block_for(packs, 1)));
    return start(losses<kWhole, kPacks, T, V>, rows_block(block_for(packs, kPacks)));
}

template <bool kWhole, typename T, int V>
cudaError_t launch_rows(const Backward& args) {
    const int64_t packs = args.length / V;
    const bool few = args.rows * packs <= kThreadsAtOnce;
    const auto start = [&](auto kernel, dim3 block) {
        kernel<<<rows_grid(args.rows, block), block, 0, args.stream>>>(args);
        return cudaGetLastError();
    };
    if (packs <= kWarp) return start(slopes<kWhole, 1, T, V>, lanes_block<kWhole, V>(packs));
    return start(slopes<kWhole, 2, T, V>, rows_block(block_for(packs, few ? 1 : kPacks)));
}

template <typename Arguments>
cudaError_t launch(const Arguments& args, bool packs) {
    if (args.rows > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (!packs) return launch_rows<true, T, 1>(args);
        if (args.length % kVector<T> == 0) return launch_rows<true, T, kVector<T>>(args);
        return launch_rows<false, T, kVector<T>>(args);
    });
}

inline cudaError_t forward(const Forward& args) { return launch(args, aligned(args.x)); }

inline cudaError_t backward(const Backward& args) { return launch(args, aligned(args.x) && aligned(args.dx)); }

}  // namespace kernelwright::cross_entropy
