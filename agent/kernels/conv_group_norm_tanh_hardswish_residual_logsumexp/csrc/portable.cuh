// The portable path: a float convolution that stores its result, then one kernel that reads it once and computes y.
#pragma once

#include "statistics.cuh"

namespace kernelwright::conv_logsumexp {

constexpr int kTaps = 9;
constexpr int kTileRows = 8;
constexpr int kTileColumns = 32;
constexpr int kTileChannels = 64;
constexpr int kInputs = 8;     // input channels in shared memory per step
constexpr int kConvThreads = 256;
constexpr int kConvBlocks = 2;  // resident blocks per SM
constexpr int kOwnChannels = 8;
constexpr int kRun = 4;        // adjacent columns of a thread, which has two runs of so many
constexpr int kInputRows = kTileRows + 2;
constexpr int kInputPitch = 48;                  // two rows of 16 columns have no bank conflict
constexpr int kWeightPitch = kTileChannels + 4;  // 8 rows of 4 channels have no bank conflict
constexpr int kFinishThreads = 256;
constexpr int kFinishChannels = 8;

constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.69314718055994531f;

// Sizes of the stored convolution [n, channels, rows, pitch]; only the first `columns` of a row are valid.
struct Sizes {
    int in_channels, channels, height, width, rows, columns, pitch, tiles_across, tiles;
};

inline Sizes sizes_of(const Forward& f) {
    Sizes s;
    s.in_channels = static_cast<int>(f.in_channels), s.channels = static_cast<int>(f.channels);
    s.height = static_cast<int>(f.height), s.width = static_cast<int>(f.width);
    s.rows = s.height - 2, s.columns = s.width - 2;
    s.tiles_across = (s.columns + kTileColumns - 1) / kTileColumns;
    s.pitch = s.tiles_across * kTileColumns;
    s.tiles = s.tiles_across * ((s.rows + kTileRows - 1) / kTileRows);
    return s;
}

struct alignas(16) ConvShared {
    float x[kInputs][kInputRows][kInputPitch];
    float weight[kInputs * kTaps][kWeightPitch];
};

// Loads kInputs channels of the tile's input from `first` on, and their weights; values out of range are zero. A warp
// loads one input channel, and the weights of its own output channels.
__device__ inline void load_inputs(ConvShared& shared, const Forward& f, const Sizes& s, int first, int row, int column,
                                   int first_channel) {
    static_assert(kConvThreads / 32 == kInputs && kTileColumns == 32 && 2 * kInputRows <= 32);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, input = first + warp;
    const float* image = f.x + (static_cast<int64_t>(blockIdx.z) * s.in_channels + input) * s.height * s.width;
    const auto value = [&](int r, int at) {
        const bool inside = input < s.in_channels && row + r < s.height && column + at < s.width;
        return inside ? image[(row + r) * s.width + column + at] : 0.0f;
    };
    float rows[kInputRows];
    #pragma unroll
    for (int r = 0; r < kInputRows; ++r) rows[r] = value(r, lane);
    if (lane < 2 * kInputRows) shared.x[warp][lane / 2][kTileColumns + lane % 2] = value(lane / 2, kTileColumns + lane % 2);
    #pragma unroll
    for (int r = 0; r < kInputRows; ++r) shared.x[warp][r][lane] = rows[r];
    for (int c = warp * kOwnChannels + lane / 8; c < (warp + 1) * kOwnChannels; c += 4) {
        const float* weight = f.weight + (static_cast<int64_t>(first_channel + c) * s.in_channels + first) * kTaps;
        float values[kInputs * kTaps / 8];
        #pragma unroll
        for (int i = 0; i < kInputs * kTaps / 8; ++i) {
            const int k = 8 * i + lane % 8;
            values[i] = first + k / kTaps < s.in_channels && first_channel + c < s.channels ? weight[k] : 0.0f;
        }
        #pragma unroll
        for (int i = 0; i < kInputs * kTaps / 8; ++i) shared.weight[8 * i + lane % 8][c] = values[i];
    }
}

// Adds the products of the inputs in shared memory to sum[channel][run * kRun + j]; `own` is the thread's first channel.
__device__ __forceinline__ void multiply_inputs(const ConvShared& shared, float (&sum)[kOwnChannels][2 * kRun], int row,
                                                int column, int own) {
    #pragma unroll 1
    for (int c = 0; c < kInputs; ++c) {
        #pragma unroll
        for (int ky = 0; ky < 3; ++ky) {
            float x[2][kRun + 2];
            #pragma unroll
            for (int run = 0; run < 2; ++run) {
                const float* from = &shared.x[c][row + ky][column + run * kTileColumns / 2];
                const float4 v = *reinterpret_cast<const float4*>(from);
                const float2 w = *reinterpret_cast<const float2*>(from + kRun);
                x[run][0] = v.x, x[run][1] = v.y, x[run][2] = v.z, x[run][3] = v.w, x[run][4] = w.x, x[run][5] = w.y;
            }
            #pragma unroll
            for (int kx = 0; kx < 3; ++kx) {
                const float4* from = reinterpret_cast<const float4*>(&shared.weight[c * kTaps + ky * 3 + kx][own]);
                const float4 v = from[0], u = from[1];
                const float weight[kOwnChannels] = {v.x, v.y, v.z, v.w, u.x, u.y, u.z, u.w};
                #pragma unroll
                for (int i = 0; i < kOwnChannels; ++i) {
                    #pragma unroll
                    for (int j = 0; j < 2 * kRun; ++j) {
                        sum[i][j] = fmaf(weight[i], x[j / kRun][j % kRun + kx], sum[i][j]);
                    }
                }
            }
        }
    }
}

__device__ __forceinline__ float warp_sum(float mine) {
    #pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, offset);
    return mine;
}

// Computes the convolution in block (tile, channels / kTileChannels, image). A warp computes kOwnChannels channels of the
// whole tile. c is [n, channels, rows, pitch], parts [n, tiles, channels].
__global__ void __launch_bounds__(kConvThreads, kConvBlocks)
    convolve(const __grid_constant__ Forward f, const __grid_constant__ Sizes s, float* c, Part* parts) {
    await_earlier();
    __shared__ ConvShared shared;
    const int lane = threadIdx.x % 32, own = threadIdx.x / 32 * kOwnChannels;
    const int row = lane / 4, column = lane % 4 * kRun;
    const int first_row = blockIdx.x / s.tiles_across * kTileRows, first_column = blockIdx.x % s.tiles_across * kTileColumns;
    const int first_channel = blockIdx.y * kTileChannels;
    float sum[kOwnChannels][2 * kRun] = {};
    for (int first = 0; first < s.in_channels; first += kInputs) {
        __syncthreads();
        load_inputs(shared, f, s, first, first_row, first_column, first_channel);
        __syncthreads();
        multiply_inputs(shared, sum, row, column, own);
    }
    const int width = min(kTileColumns, s.columns - first_column);
    const float count = static_cast<float>(min(kTileRows, s.rows - first_row) * width);
    const bool is_row = first_row + row < s.rows;
    #pragma unroll
    for (int i = 0; i < kOwnChannels; ++i) {
        const int channel = first_channel + own + i;
        if (channel >= s.channels) break;
        const float bias = f.bias == nullptr ? 0.0f : f.bias[channel];
        float total = 0.0f;
        #pragma unroll
        for (int j = 0; j < 2 * kRun; ++j) {
            sum[i][j] += bias;
            if (is_row && column + j / kRun * kTileColumns / 2 + j % kRun < width) total += sum[i][j];
        }
        const float mean = warp_sum(total) / count;
        float squares = 0.0f;
        #pragma unroll
        for (int j = 0; j < 2 * kRun; ++j) {
            const float off = sum[i][j] - mean;
            if (is_row && column + j / kRun * kTileColumns / 2 + j % kRun < width) squares = fmaf(off, off, squares);
        }
        squares = warp_sum(squares);
        const int64_t image = blockIdx.z;
        if (lane == 0) parts[(image * s.tiles + blockIdx.x) * s.channels + channel] = {count, mean, squares};
        if (!is_row) continue;
        float* to = c + ((image * s.channels + channel) * s.rows + first_row + row) * s.pitch + first_column + column;
        *reinterpret_cast<float4*>(to) = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
        *reinterpret_cast<float4*>(to + kTileColumns / 2) = make_float4(sum[i][4], sum[i][5], sum[i][6], sum[i][7]);
    }
}

// Replaces each of four values by its inverse with one reciprocal. The product of all four must be finite.
template <typename Inverse>
__device__ __forceinline__ void invert(float (&v)[4], Inverse inverse) {
    const float front = v[0] * v[1], back = v[2] * v[3];
    const float of_all = inverse(front * back);
    const float of_front = of_all * back, of_back = of_all * front;
    const float kept[4] = {v[0], v[1], v[2], v[3]};
    v[0] = of_front * kept[1], v[1] = of_front * kept[0], v[2] = of_back * kept[3], v[3] = of_back * kept[2];
}

// Computes c = log2(e) * (c + hardswish(tanh(z))) for four channels. t = tanh(z) = 1 - 2 r with r = 1 / (1 + exp(2 z)),
// and hardswish(t) = t (t + 3) / 6 since t lies in [-1, 1]. In float, t rounds to 1 from 2 log2(e) z = 26 on.
__device__ __forceinline__ void activate(float (&c)[4], const Norm (&by)[4]) {
    float r[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float z = fmaf(c[i], by[i].scale, by[i].shift);
        r[i] = 1.0f + exp2f(z > 26.0f ? 26.0f : z);  // a conditional instead of fminf keeps NaN
    }
    invert(r, [](float product) { return __fdividef(1.0f, product); });
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float bent = fmaf(r[i], 2.0f / 3.0f * kLog2e, -5.0f / 3.0f * kLog2e);
        c[i] = fmaf(c[i], kLog2e, fmaf(r[i], bent, 2.0f / 3.0f * kLog2e));
    }
}

// Computes y with one thread per element of [n, rows, columns]: the logarithm of the sum over the channels, in base 2
// until the end.
__global__ void __launch_bounds__(kFinishThreads)
    finish(const float* c, const Norm* norms, float* y, const __grid_constant__ Sizes s) {
    await_earlier();
    const int at = blockIdx.x * kFinishThreads + threadIdx.x;
    if (at >= s.rows * s.columns) return;
    const int64_t image = blockIdx.y, plane = static_cast<int64_t>(s.rows) * s.pitch;
    const float* from = c + image * s.channels * plane + at / s.columns * s.pitch + at % s.columns;
    const Norm* norm = norms + image * s.channels;
    constexpr float kLeast = -3.0e38f;  // finite, to avoid inf - inf
    float largest = kLeast, sum = 0.0f;
    for (int first = 0; first < s.channels; first += kFinishChannels) {
        float v[kFinishChannels / 4][4];
        Norm by[kFinishChannels / 4][4];
        #pragma unroll
        for (int i = 0; i < kFinishChannels; ++i, from += plane) {
            const bool is_some = first + i < s.channels;
            v[i / 4][i % 4] = is_some ? *from : kLeast;
            by[i / 4][i % 4] = is_some ? norm[first + i] : Norm{0.0f, 0.0f};
        }
        float most = largest;
        #pragma unroll
        for (int i = 0; i < kFinishChannels / 4; ++i) activate(v[i], by[i]);
        #pragma unroll
        for (int i = 0; i < kFinishChannels; ++i) most = fmaxf(most, v[i / 4][i % 4]);
        sum *= exp2f(largest - most);
        #pragma unroll
        for (int i = 0; i < kFinishChannels; ++i) sum += exp2f(v[i / 4][i % 4] - most);
        largest = most;
    }
    y[image * s.rows * s.columns + at] = (largest + log2f(sum)) * kLn2;
}

}  // namespace kernelwright::conv_logsumexp
