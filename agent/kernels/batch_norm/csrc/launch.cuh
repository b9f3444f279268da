// BatchNorm by its running statistics, with a residual and an activation, forward and backward: one map per channel.
//
// z = (x - mean) / sqrt(variance + eps) * weight + bias + residual; y = act(z). Backward dz = dy * act'(z), and dx is
// dz times the channel's scale. Elements lie in planes of a channel, or with their channels side by side.
#pragma once

#include "../../csrc/block.cuh"
#include "../../group_norm/csrc/activation.cuh"

namespace kernelwright::batch_norm {

struct Forward {
    const void* dy;        // null: forward
    const void* x;         // backward without an activation: not read
    const void* residual;  // likewise; or null
    const void* mean;      // [channels], as the variance, the weight (or null) and the bias (or null)
    const void* variance;
    const void* weight;
    const void* bias;
    void* y;               // backward: dx, or null
    void* dz;              // backward: or null
    int64_t n, channels, spatial;
    int64_t dtype, param_dtype;
    int64_t layout, act;  // Layout and Act of group_norm
    double eps;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kThreads = 256;
constexpr int kBlocks = 2;  // on an SM, at least
constexpr int kPacks = 2;   // of a tensor, under way in one thread
constexpr int kRows = 16;   // with channels side by side, of one thread

// What x is multiplied by, and what is added.
struct Map {
    float scale, shift;
};

template <typename T>
__device__ __forceinline__ Map map_of(const Forward& args, int64_t channel) {
    const auto value = [&](const void* values, float absent) {
        return group_norm::parameter<T>(values, args.param_dtype, channel, absent);
    };
    const float scale = value(args.weight, 1.0f) * rsqrtf(value(args.variance, 1.0f) + float(args.eps));
    return {scale, fmaf(-value(args.mean, 0.0f), scale, value(args.bias, 0.0f))};
}

// Of each tensor that is there, what stands at one place.
template <typename T, int V>
struct Taken {
    Pack<T, V> x, residual, dy;

    __device__ __forceinline__ void load(const Forward& args, int64_t place) {
        const bool bent = args.dy == nullptr || args.act != group_norm::kNone;
        if (bent) x = static_cast<const Pack<T, V>*>(args.x)[place];
        if (bent && args.residual != nullptr) residual = static_cast<const Pack<T, V>*>(args.residual)[place];
        if (args.dy != nullptr) dy = static_cast<const Pack<T, V>*>(args.dy)[place];
    }

    __device__ __forceinline__ void store(const Forward& args, int64_t place, const Map (&maps)[V]) {
        group_norm::Pack<float, V> z = {};
        if (args.dy == nullptr || args.act != group_norm::kNone) {
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                z.v[k] = fmaf(to_float(x.v[k]), maps[k].scale, maps[k].shift);
                if (args.residual != nullptr) z.v[k] += to_float(residual.v[k]);
            }
        }
        if (args.dy == nullptr) {
            if (args.act != group_norm::kNone) z = group_norm::activate_pack(args.act, z);
            put(args.y, place, z);
            return;
        }
        if (args.act != group_norm::kNone) z = group_norm::derivative_pack(args.act, z);
        #pragma unroll
        for (int k = 0; k < V; ++k) z.v[k] = to_float(dy.v[k]) * (args.act == group_norm::kNone ? 1.0f : z.v[k]);
        if (args.dz != nullptr) put(args.dz, place, z);
        #pragma unroll
        for (int k = 0; k < V; ++k) z.v[k] *= maps[k].scale;
        if (args.y != nullptr) put(args.y, place, z);
    }

    __device__ __forceinline__ static void put(void* to, int64_t place, const group_norm::Pack<float, V>& values) {
        Pack<T, V> pack;
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(values.v[k]);
        static_cast<Pack<T, V>*>(to)[place] = pack;
    }
};

// Planes one after the other. A pack may reach into the next one, but not further: a plane has a pack or more.
template <typename T, int V, typename Index>
__global__ void __launch_bounds__(kThreads, kBlocks) planes(Forward args, Index packs) {
    const Index first = Index(blockIdx.x) * (kThreads * kPacks) + threadIdx.x;
    const Index spatial = Index(args.spatial), channels = Index(args.channels);
    Taken<T, V> taken[kPacks];
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) taken[u].load(args, min(Index(first + u * kThreads), Index(packs - 1)));
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        const Index place = first + u * kThreads;
        if (place >= packs) return;
        const Index plane = place * V / spatial, left = spatial - place * V % spatial;
        const Map own = map_of<T>(args, plane % channels);
        const Map next = left < V ? map_of<T>(args, (plane + 1) % channels) : own;
        Map maps[V];
        #pragma unroll
        for (int k = 0; k < V; ++k) maps[k] = k < left ? own : next;
        taken[u].store(args, place, maps);
    }
}

// A thread goes down the rows of its own channels; a block is `width` packs of channels wide.
template <typename T, int V>
__global__ void __launch_bounds__(kThreads, kBlocks) side_by_side(
    Forward args, int64_t rows, int64_t packs, int width) {
    const unsigned groups = unsigned((packs + width - 1) / width);
    const int64_t column = blockIdx.x % groups * int64_t{width} + threadIdx.x % width;
    const int height = kThreads / width;
    const int64_t begin = blockIdx.x / groups * int64_t{kRows * height} + int(threadIdx.x) / width;
    const int64_t end = min(rows, begin + kRows * height);
    if (column >= packs || begin >= rows) return;
    Map maps[V];
    #pragma unroll
    for (int k = 0; k < V; ++k) maps[k] = map_of<T>(args, column * V + k);
    for (int64_t row = begin; row < end; row += kPacks * height) {
        Taken<T, V> taken[kPacks];
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) taken[u].load(args, min(row + u * height, rows - 1) * packs + column);
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            const int64_t at = row + u * height;
            if (at < end) taken[u].store(args, at * packs + column, maps);
        }
    }
}

inline int64_t blocks_of(int64_t count, int64_t each) { return (count + each - 1) / each; }

template <typename T, int V>
cudaError_t launch(const Forward& args, bool in_planes) {
    const int64_t count = args.n * args.channels * args.spatial;
    if (!in_planes) {
        const int64_t rows = args.n * args.spatial, packs = args.channels / V;
        int width = 1;
        while (width < kWarp && width < packs) width *= 2;
        const int64_t blocks = blocks_of(packs, width) * blocks_of(rows, kRows * (kThreads / width));
        if (blocks > kMaxGrid) return cudaErrorInvalidValue;
        side_by_side<T, V><<<unsigned(blocks), kThreads, 0, args.stream>>>(args, rows, packs, width);
        return cudaGetLastError();
    }
    const int64_t packs = count / V, blocks = blocks_of(packs, kThreads * kPacks);
    if (blocks > kMaxGrid) return cudaErrorInvalidValue;
    if (count <= 0x7fffffff) {
        planes<T, V><<<unsigned(blocks), kThreads, 0, args.stream>>>(args, unsigned(packs));
    } else {
        planes<T, V><<<unsigned(blocks), kThreads, 0, args.stream>>>(args, packs);
    }
    return cudaGetLastError();
}

inline cudaError_t forward(const Forward& args) {
    const bool in_planes = args.layout == group_norm::kContiguous && args.spatial > 1;
    const int64_t count = args.n * args.channels * args.spatial;
    const bool starts =
        aligned(args.dy) && aligned(args.x) && aligned(args.residual) && aligned(args.y) && aligned(args.dz);
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        constexpr int kWide = kVector<T>;
        const bool fits = in_planes ? args.spatial >= kWide && count % kWide == 0 : args.channels % kWide == 0;
        if (starts && fits) return launch<T, kWide>(args, in_planes);
        return launch<T, 1>(args, in_planes);
    });
}

}  // namespace kernelwright::batch_norm
