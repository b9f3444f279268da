// LayerNorm and RMSNorm backward, also of x + residual, whose own gradient is added. Selects the kernel for a call and reduces
// the partial sums of the parameters' gradients.
//
// Few rows go to norm_gradients_few.cuh. Rows that do not fit into an SM go there too, except for their parameters'
// gradients, which row_norm_backward_long.cuh computes.
#pragma once

#include <type_traits>

#include "norm_gradients.cuh"
#include "norm_gradients_split.cuh"

namespace kernelwright {

constexpr int kSumLanes = 16;  // threads that add the partial sums of a column
constexpr int64_t kFewNormRows = 512;  // maximum number of rows for a single launch
constexpr int64_t kFewSplit = 4;  // minimum parts of a row for two launches

// Adds up the partial sums [2][parts][length] of the parameters' gradients. Blocks are (kWarp columns, kSumLanes).
// blockIdx.y selects the parameter, 0 for the weight.
template <typename T>
__global__ void __launch_bounds__(kWarp* kSumLanes) parameter_sums(
    const float* partials, void* dweight, void* dbias, bool wide, int64_t parts, int64_t length) {
    __shared__ float of_lane[kSumLanes][kWarp];
    await_earlier();
    void* gradient = blockIdx.y == 0 ? dweight : dbias;
    if (gradient == nullptr) return;
    const int64_t column = int64_t(blockIdx.x) * kWarp + threadIdx.x;
    float sum = 0.0f;
    if (column < length) {
        partials += blockIdx.y * parts * length + column;
        #pragma unroll 8
        for (int64_t part = threadIdx.y; part < parts; part += kSumLanes) sum += partials[part * length];
    }
    of_lane[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || column >= length) return;
    #pragma unroll
    for (int lane = 1; lane < kSumLanes; ++lane) sum += of_lane[lane][threadIdx.x];
    set_parameter<T>(gradient, wide, column, sum);
}

// Launches the reduction of `parts` rows of partial sums.
template <typename T>
cudaError_t launch_parameter_sums(const AddRowBackward& args, int64_t parts) {
    const int64_t columns = (args.length + kWarp - 1) / kWarp;
    if (columns > kMaxGrid) return cudaErrorInvalidValue;
    return launched(
        parameter_sums<T>, dim3(unsigned(columns), args.dbias == nullptr ? 1 : 2), dim3(kWarp, kSumLanes), args.stream,
        static_cast<const float*>(args.workspace), args.dweight, args.dbias, args.param_dtype == kFloat32, parts,
        args.length);
}

template <bool kCentred, bool kSum, typename T, int V>
cudaError_t launch_long(const AddRowBackward& args) {
    AddRowBackward of_input = args;
    of_input.dweight = of_input.dbias = nullptr;
    cudaError_t done = args.dx == nullptr ? cudaSuccess : launch_few_rows<kCentred, kSum, T, V>(of_input);
    if (done != cudaSuccess || !wants_parameters(args)) return done;
    done = launch_long_parameters<kCentred, T>(args);
    return done == cudaSuccess ? launch_parameter_sums<T>(args, long_chunks(args.rows)) : done;
}

template <typename Team, bool kCentred, bool kSum, typename T, int V>
cudaError_t launch_gradients(const AddRowBackward& args) {
    const auto plan = gradient_plan<Team, kCentred, kSum, T, V>(
        args.rows, packs_of<Team, V>(args.length), args.param_dtype == kFloat32, args.device);
    if (plan.stages == 0) return launch_long<kCentred, kSum, T, Team::kShifted ? 1 : V>(args);
    const cudaError_t done = launch_gradients_of<Team, kCentred, kSum, T, V>(args, plan);
    return done == cudaSuccess && wants_parameters(args) ? launch_parameter_sums<T>(args, plan.blocks) : done;
}

// Selects the fastest kernel for the number of packs, from timings on an H100.
template <bool kCentred, bool kSum, typename T, int V>
cudaError_t launch_backward(const AddRowBackward& args) {
    const int64_t packs = args.length / V;
    const auto by = [&](auto team) { return launch_gradients<decltype(team), kCentred, kSum, T, V>(args); };
    if (args.rows <= kFewNormRows) {
        if constexpr (V > 1) {
            const bool splits = wants_parameters(args) && parts_of_row(packs) >= kFewSplit;
            if (splits) return launch_split_rows<kCentred, kSum, T, V>(args);
        }
        return launch_few_rows<kCentred, kSum, T, V>(args);
    }
    if constexpr (V == 1) {
        // Handles rows that are not whole packs. The tensors themselves must be aligned.
        const bool on_packs = aligned(args.dy) && aligned(args.dadded) && aligned(args.added) && aligned(args.dx);
        if (!on_packs) return launch_long<kCentred, kSum, T, 1>(args);
        return launch_gradients<Teams<0, 2, 512, 1, true>, kCentred, kSum, T, kVector<T>>(args);
    } else {
        using Shortest = std::conditional_t<kCentred, Teams<16, 1, 768>, Teams<16, 1, 512, 2>>;
        if (packs <= 16) return by(Shortest{});
        if (packs <= 32 || (packs > 64 && packs <= 512)) return by(Teams<0, 1, 512, 2>{});
        if (packs <= 1024) return by(Teams<0, 2, 512>{});
        if (packs <= 1536) return by(Teams<0, 3, 512>{});
        return by(Teams<0, 4, 512>{});
    }
}

template <bool kCentred, bool kSum>
cudaError_t norm_backward(const AddRowBackward& args) {
    if (args.rows > kMaxGrid) return cudaErrorInvalidValue;
    return with_elements(args.dtype, args.param_dtype, [&](auto element) {
        using T = decltype(element);
        if (in_vectors<T>(args.length, args.dy, args.dadded, args.added, args.dx, args.weight)) {
            return launch_backward<kCentred, kSum, T, kVector<T>>(args);
        }
        return launch_backward<kCentred, kSum, T, 1>(args);
    });
}

template <bool kCentred>
cudaError_t add_row_backward(const AddRowBackward& args) {
    return norm_backward<kCentred, true>(args);
}

inline AddRowBackward alone(const RowBackward& args) {
    return {args.dy, nullptr, args.x, args.weight, args.mean, args.rstd, args.dx, args.dweight, args.dbias,
            args.workspace, args.rows, args.length, args.dtype, args.param_dtype, args.stream, args.device};
}

template <bool kCentred>
cudaError_t row_backward(const RowBackward& args) {
    return norm_backward<kCentred, false>(alone(args));
}

// Returns the bytes of partial sums, an upper bound for all kernels.
inline int64_t add_row_backward_workspace(const AddRowBackward& args) {
    if (!wants_parameters(args)) return 0;
    int multiprocessors = 0;
    if (cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, int(args.device)) != cudaSuccess) {
        multiprocessors = 1;  // the launch will report the error
    }
    const int64_t parts = std::min(args.rows, std::max<int64_t>(kMostBlocks * multiprocessors, kMaxChunks));
    return 2 * parts * args.length * int64_t{sizeof(float)};
}

inline int64_t row_backward_workspace(const RowBackward& args) { return add_row_backward_workspace(alone(args)); }

}  // namespace kernelwright
