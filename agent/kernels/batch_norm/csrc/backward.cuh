// Backward with the gradients of weight and bias, in the same pass as the gradients of x and the residual.
//
// dbias is the sum of dz over a channel, dweight the sum of dz * (x - mean) / sqrt(variance + eps). A block sums a part of
// one channel, or of several channels in channels-last layout. A second kernel adds up the parts in a fixed order.
#pragma once

#include "../../csrc/launched.cuh"
#include "map.cuh"

namespace kernelwright::batch_norm {

struct Backward {
    const void* dy;
    const void* x;
    const void* residual;  // or null
    const void* mean;      // [channels], as are variance, weight (or null) and bias (or null)
    const void* variance;
    const void* weight;
    const void* bias;
    void* dx;       // gradient of x, or null
    void* dz;       // gradient of the residual and of the activation's input, or null
    void* dweight;  // param_dtype [channels], or null
    void* dbias;    // param_dtype [channels], or null
    float* workspace;  // backward_workspace(args) bytes
    int64_t n, channels, spatial;
    int64_t dtype, param_dtype;
    int64_t layout, act;
    double eps;
    cudaStream_t stream;
    int64_t device;
};

inline Forward map_of(const Backward& args) {
    return {args.dy, args.x, args.residual, args.mean, args.variance, args.weight, args.bias,
            args.dx, args.dz, args.n, args.channels, args.spatial, args.dtype, args.param_dtype,
            args.layout, args.act, args.eps, args.stream, args.device};
}

constexpr int kThreads = 256;
constexpr int kBlocks = 2;           // minimum resident blocks per SM
constexpr int kPacks = 2;            // loads of each tensor in flight per thread
constexpr int kSumRows = 32;         // rows per thread in channels-last layout
constexpr int64_t kSumBlocks = 2048;  // target number of blocks in contiguous layout
constexpr int kFinishers = 8;        // warps that add the parts of 32 channels

// Split of a channel's sum: number of parts, and packs or rows in each.
struct Parts {
    int64_t count, each;
};

inline bool in_planes(const Backward& args) { return args.layout == group_norm::kContiguous && args.spatial > 1; }

inline int width_of(int64_t packs) {
    int width = 1;
    while (width < kWarp && width < packs) width *= 2;
    return width;
}

inline int vector_of(const Backward& args, int wide) {
    const bool fits =
        in_planes(args) ? args.spatial % wide == 0 : args.channels % wide == 0 && parameters_start(args);
    return tensors_start(args) && aligned(args.dx) && fits ? wide : 1;
}

inline Parts parts_of(const Backward& args, int vector) {
    if (!in_planes(args)) {
        const int64_t each = int64_t{kSumRows} * (kThreads / width_of(args.channels / vector));
        return {blocks_of(args.n * args.spatial, each), each};
    }
    const int64_t packs = args.n * (args.spatial / vector), least = kThreads * kPacks;
    const int64_t wanted = std::min(blocks_of(kSumBlocks, args.channels), blocks_of(packs, least));
    const int64_t each = blocks_of(blocks_of(packs, wanted), least) * least;
    return {blocks_of(packs, each), each};
}

// Returns the factor that turns the sum of dz * (x - mean) into dweight.
template <typename T>
__device__ __forceinline__ float rstd_of(const Forward& args, int64_t channel) {
    float variance;
    with_parameters<T>(args, [&](auto stored) {
        variance = parameters<decltype(stored), 1>(args, args.variance, channel, 1.0f).v[0];
    });
    return rsqrtf(variance + float(args.eps));
}

// Sums a part of one channel's planes per block.
template <typename T, int V>
__global__ void __launch_bounds__(kThreads, kBlocks) sum_planes(Forward args, Parts parts, float* sums) {
    await_earlier();
    __shared__ float of_weight[kMaxWarps], of_bias[kMaxWarps];
    const int64_t channel = blockIdx.x % args.channels, part = blockIdx.x / args.channels;
    const int64_t plane = args.spatial / V, packs = args.n * plane;
    const int64_t begin = part * parts.each, end = min(packs, begin + parts.each);
    Map own, maps[V];
    float mean;
    with_parameters<T>(args, [&](auto stored) {
        own = map_of<decltype(stored)>(args, channel);
        mean = parameters<decltype(stored), 1>(args, args.mean, channel, 0.0f).v[0];
    });
    #pragma unroll
    for (int k = 0; k < V; ++k) maps[k] = own;
    // Image and offset advance by increments, since a division per item would take longer than its loads.
    const int64_t step_images = kThreads / plane, step_rest = kThreads % plane;
    int64_t image = (begin + threadIdx.x) / plane, rest = (begin + threadIdx.x) % plane;
    float dweight = 0.0f, dbias = 0.0f;
    for (int64_t item = begin + threadIdx.x; item < end; item += kThreads * kPacks) {
        Slope<T, V, true> taken[kPacks];
        int64_t places[kPacks];
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            places[u] = (image * args.channels + channel) * plane + rest;
            if (item + u * kThreads < end) taken[u].load(args, places[u]);
            image += step_images;
            rest += step_rest;
            if (rest >= plane) {
                rest -= plane;
                ++image;
            }
        }
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            if (item + u * kThreads >= end) break;
            const auto dz = taken[u].store(args, places[u], maps);
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                dbias += dz.v[k];
                dweight = fmaf(dz.v[k], to_float(taken[u].of.x.v[k]) - mean, dweight);
            }
        }
    }
    dweight = block_reduce<Sum>(dweight, of_weight);
    dbias = block_reduce<Sum>(dbias, of_bias);
    if (threadIdx.x != 0) return;
    sums[part * args.channels + channel] = dweight * rstd_of<T>(args, channel);
    sums[(parts.count + part) * args.channels + channel] = dbias;
}

// Sums a part of the rows per block, for `width` packs of channels.
template <typename T, int V>
__global__ void __launch_bounds__(kThreads, kBlocks) sum_side_by_side(
    Forward args, Parts parts, int64_t rows, int64_t packs, int width, float* sums) {
    await_earlier();
    __shared__ float of_weight[kThreads * V], of_bias[kThreads * V];
    const unsigned groups = unsigned((packs + width - 1) / width);
    const int64_t first = blockIdx.x % groups * int64_t{width}, column = first + threadIdx.x % width;
    const int64_t part = blockIdx.x / groups;
    const int height = kThreads / width;
    const int64_t end = column < packs ? min(rows, (part + 1) * parts.each) : 0;
    float dweight[V] = {}, dbias[V] = {};
    Map maps[V];
    Pack<float, V> mean;
    with_parameters<T>(args, [&](auto stored) {
        map_of<decltype(stored)>(maps, args, min(column, packs - 1));
        mean = parameters<decltype(stored), V>(args, args.mean, min(column, packs - 1), 0.0f);
    });
    for (int64_t row = part * parts.each + int(threadIdx.x) / width; row < end; row += kPacks * height) {
        Slope<T, V, true> taken[kPacks];
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) taken[u].load(args, min(row + u * height, rows - 1) * packs + column);
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            const int64_t at = row + u * height;
            if (at >= end) break;
            const auto dz = taken[u].store(args, at * packs + column, maps);
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                dbias[k] += dz.v[k];
                dweight[k] = fmaf(dz.v[k], to_float(taken[u].of.x.v[k]) - mean.v[k], dweight[k]);
            }
        }
    }
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        of_weight[threadIdx.x * V + k] = dweight[k];
        of_bias[threadIdx.x * V + k] = dbias[k];
    }
    __syncthreads();
    for (int place = threadIdx.x; place < width * V; place += kThreads) {
        const int64_t channel = first * V + place;
        if (channel >= args.channels) continue;
        float weight = 0.0f, bias = 0.0f;
        for (int line = 0; line < height; ++line) {
            weight += of_weight[line * width * V + place];
            bias += of_bias[line * width * V + place];
        }
        sums[part * args.channels + channel] = weight * rstd_of<T>(args, channel);
        sums[(parts.count + part) * args.channels + channel] = bias;
    }
}

template <typename T>
__global__ void __launch_bounds__(kWarp * kFinishers) add_parts(Backward args, int64_t parts) {
    await_earlier();
    __shared__ float of_weight[kFinishers][kWarp], of_bias[kFinishers][kWarp];
    const int64_t channel = int64_t{blockIdx.x} * kWarp + threadIdx.x;
    float weight = 0.0f, bias = 0.0f;
    if (channel < args.channels) {
        for (int64_t part = threadIdx.y; part < parts; part += kFinishers) {
            weight += args.workspace[part * args.channels + channel];
            bias += args.workspace[(parts + part) * args.channels + channel];
        }
    }
    of_weight[threadIdx.y][threadIdx.x] = weight;
    of_bias[threadIdx.y][threadIdx.x] = bias;
    __syncthreads();
    if (threadIdx.y != 0 || channel >= args.channels) return;
    for (int other = 1; other < kFinishers; ++other) {
        weight += of_weight[other][threadIdx.x];
        bias += of_bias[other][threadIdx.x];
    }
    const auto put = [&](void* to, float value) {
        if (to == nullptr) return;
        if (args.param_dtype == kFloat32) {
            static_cast<float*>(to)[channel] = value;
        } else {
            static_cast<T*>(to)[channel] = from_float<T>(value);
        }
    };
    put(args.dweight, weight);
    put(args.dbias, bias);
}

template <typename T, int V>
cudaError_t launch_sums(const Backward& args) {
    const Parts parts = parts_of(args, V);
    const int64_t rows = args.n * args.spatial, packs = args.channels / V;
    const int width = width_of(packs);
    const int64_t blocks = parts.count * (in_planes(args) ? args.channels : blocks_of(packs, width));
    if (blocks > kMaxGrid) return cudaErrorInvalidValue;
    const cudaError_t status =
        in_planes(args)
            ? launched(sum_planes<T, V>, unsigned(blocks), kThreads, args.stream, map_of(args), parts, args.workspace)
            : launched(
                  sum_side_by_side<T, V>, unsigned(blocks), kThreads, args.stream, map_of(args), parts, rows, packs, width,
                  args.workspace);
    if (status != cudaSuccess) return status;
    const dim3 block(kWarp, kFinishers);
    return launched(add_parts<T>, unsigned(blocks_of(args.channels, kWarp)), block, args.stream, args, parts.count);
}

// Returns the bytes of workspace for these addresses and sizes.
inline int64_t backward_workspace(const Backward& args) {
    const int wide = args.dtype == kFloat32 ? kVector<float> : kVector<__half>;
    return 2 * parts_of(args, vector_of(args, wide)).count * args.channels * int64_t{sizeof(float)};
}

inline cudaError_t backward(const Backward& args) {
    if (args.param_dtype != args.dtype && args.param_dtype != kFloat32) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (vector_of(args, kVector<T>) == 1) return launch_sums<T, 1>(args);
        return launch_sums<T, kVector<T>>(args);
    });
}

}  // namespace kernelwright::batch_norm
