// Backward for the contiguous layout [n][channel][position], and code that both layouts share.
//
// plane_sums: for each plane (n, channel), or slice of one, db = sum dz and ds = sum dz * xhat, in float.
// row_gradients: dx and dresidual. Further blocks of the same launch sum the planes of a channel to dweight and dbias,
// in a fixed order.
//   xhat = (x - mean) * rstd,  dz = dy * act'(xhat * weight + bias + residual),  count = elements of a group
//   dx = rstd * (weight * dz - (A + xhat * B) / count),  A = sum weight * db,  B = sum weight * ds over the group
#pragma once

#include "activation.cuh"
#include "elements.cuh"
#include "portable_forward.cuh"
#include "sums.cuh"

namespace kernelwright::group_norm {

constexpr int kChannelThreads = 256;  // threads of a block that sums planes: 32 channels, 8 threads each
constexpr int kGradientPacks = 1;     // packs of x and dy each that a thread has in flight

struct Sums {
    float db;
    float ds;
};

// Inputs to dz and dx that are common to the elements of a channel.
struct Channel {
    float mean, rstd;
    float weight, bias;
};

template <typename T>
__device__ __forceinline__ Channel channel_of(const Backward& b, int64_t sample, int64_t channel,
                                              int64_t group_channels) {
    const int64_t group = sample * b.groups + quotient(channel, group_channels);
    const Affine affine = affine_of<T>(b.weight, b.bias, b.param_dtype, channel);
    return {b.mean[group], b.rstd[group], affine.weight, affine.bias};
}

// Returns true if the forward's residual must be read again.
__device__ __forceinline__ bool reads_residual(const Backward& b) { return b.residual != nullptr && b.act != kNone; }

// Returns dz of a pack. `z` is the output of the norm; `residual` is the residual of the forward, if any.
template <typename T, int V>
__device__ __forceinline__ Pack<float, V> before_activation(const Backward& b, const Pack<T, V>& dy,
                                                            const Pack<T, V>& residual, Pack<float, V> z) {
    Pack<float, V> dz;
    #pragma unroll
    for (int k = 0; k < V; ++k) dz.v[k] = to_float(dy.v[k]);
    if (b.act == kNone) return dz;
    if (b.residual != nullptr) {
        #pragma unroll
        for (int k = 0; k < V; ++k) z.v[k] += to_float(residual.v[k]);
    }
    z = derivative_pack<V>(b.act, z);
    #pragma unroll
    for (int k = 0; k < V; ++k) dz.v[k] *= z.v[k];
    return dz;
}

// Location of the sums of channel c of sample n: at[n * channels * pieces + c * channel_step + i * piece_step].
struct Pieces {
    const Sums* at;
    int64_t pieces;
    int64_t channel_step;
    int64_t piece_step;
};

// Computes dweight and dbias of 32 channels in one block.
template <typename T>
__device__ __forceinline__ void add_planes(const Backward& b, const Pieces& pieces, int64_t block) {
    constexpr int kRows = kChannelThreads / kWarp;
    __shared__ Pair of_row[kRows][kWarp];
    const int lane = threadIdx.x % kWarp;
    const int row = threadIdx.x / kWarp;
    const int64_t c = block * kWarp + lane;
    Pair total = {0.0, 0.0};
    if (c < b.channels) {
        const Sums* channel = pieces.at + c * pieces.channel_step;
        #pragma unroll 4
        for (int64_t i = row; i < b.n * pieces.pieces; i += kRows) {
            const auto [sample, piece] = split(i, pieces.pieces);
            const Sums s = channel[sample * b.channels * pieces.pieces + piece * pieces.piece_step];
            total = total + Pair{s.db, s.ds};
        }
    }
    of_row[row][lane] = total;
    __syncthreads();
    if (row != 0 || c >= b.channels) return;
    for (int i = 1; i < kRows; ++i) total = total + of_row[i][lane];
    if (b.dbias != nullptr) set_parameter<T>(b.dbias, b.param_dtype, c, static_cast<float>(total.a));
    if (b.dweight != nullptr) set_parameter<T>(b.dweight, b.param_dtype, c, static_cast<float>(total.b));
}

// Sums a slice of a plane with a team of threads, and writes sums[plane * slices + slice].
template <typename T, int V>
__global__ void __launch_bounds__(kSliceThreads) plane_sums(const Backward b, const Cut cut, const int team,
                                                            Sums* sums) {
    await_earlier();
    let_next_begin();
    const int64_t unit = static_cast<int64_t>(blockIdx.x) * (kSliceThreads / team) + threadIdx.x / team;
    const bool mine = unit < b.n * b.channels * cut.slices;
    Pair total = {0.0, 0.0};
    if (mine) {
        const auto [plane, slice] = split(unit, cut.slices);
        const auto [sample, channel] = split(plane, b.channels);
        const Channel c = channel_of<T>(b, sample, channel, quotient(b.channels, b.groups));
        const int64_t start = plane * b.spatial;
        const T* x = static_cast<const T*>(b.x) + start;
        const T* dy = static_cast<const T*>(b.dy) + start;
        const int64_t begin = slice * cut.packs * V - lead_of<T, V>(x);
        const int64_t last = begin + cut.packs * V;
        const int64_t end = last < b.spatial ? last : b.spatial;
        #pragma unroll 1
        for (int64_t first = begin + threadIdx.x % team * V; first < end; first += team * V) {
            const Pack<T, V> xs = load_pack<T, V>(x, first, b.spatial);
            const Pack<T, V> dys = load_pack<T, V>(dy, first, b.spatial);
            Pack<T, V> residual;
            if (reads_residual(b)) {
                residual = load_pack<T, V>(static_cast<const T*>(b.residual) + start, first, b.spatial);
            }
            Pack<float, V> xhat;
            Pack<float, V> z;
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                xhat.v[k] = (to_float(xs.v[k]) - c.mean) * c.rstd;
                z.v[k] = fmaf(xhat.v[k], c.weight, c.bias);
            }
            const Pack<float, V> dz = before_activation<T, V>(b, dys, residual, z);
            float db = 0.0f;
            float ds = 0.0f;
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                if (!inside(first + k, b.spatial)) continue;
                db += dz.v[k];
                ds = fmaf(dz.v[k], xhat.v[k], ds);
            }
            total = total + Pair{db, ds};
        }
    }
    total = team_sum(total, team);
    if (mine && threadIdx.x % team == 0) sums[unit] = {static_cast<float>(total.a), static_cast<float>(total.b)};
}

// Coefficients of a group in dx = dz * (rstd * weight) + xhat * slope + level.
struct GroupTerms {
    float slope;
    float level;
};

__device__ __forceinline__ GroupTerms terms_of(Pair group, float rstd, int64_t count) {
    const double share = static_cast<double>(rstd) / static_cast<double>(count);
    return {static_cast<float>(-group.b * share), static_cast<float>(-group.a * share)};
}

// Values common to the elements of a row.
struct RowTerms {
    float mean, rstd;
    GroupTerms group;
};

// Computes dx and dresidual of one pack.
template <typename T, int V>
__device__ __forceinline__ void gradient_pack(const Backward& b, const RowTerms& r, Pack<T, V> xs, Pack<T, V> dys,
                                              int64_t start, int64_t first, int64_t length, Place<int64_t> at) {
    Pack<T, V> residual;
    if (reads_residual(b)) residual = load_pack<T, V>(static_cast<const T*>(b.residual) + start, first, length);
    const Affine affine = affine_of<T>(b.weight, b.bias, b.param_dtype, at.channel);
    Pack<float, V> xhat;
    Pack<float, V> z;
    Pack<float, V> weight;
    if (V == 1 || b.spatial >= V) {  // at most two channels, as in apply_pack
        const int64_t left = b.spatial - at.position;
        Affine next = affine;
        if (left < V && first + left < length) next = affine_of<T>(b.weight, b.bias, b.param_dtype, at.channel + 1);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const bool here = k < left;
            xhat.v[k] = (to_float(xs.v[k]) - r.mean) * r.rstd;
            weight.v[k] = here ? affine.weight : next.weight;
            z.v[k] = fmaf(xhat.v[k], weight.v[k], here ? affine.bias : next.bias);
        }
    } else {
        Affine now = affine;
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            xhat.v[k] = (to_float(xs.v[k]) - r.mean) * r.rstd;
            weight.v[k] = now.weight;
            z.v[k] = fmaf(xhat.v[k], now.weight, now.bias);
            if (++at.position < b.spatial || !inside<int64_t>(first + k + 1, length)) continue;
            at.position = 0;
            now = affine_of<T>(b.weight, b.bias, b.param_dtype, ++at.channel);
        }
    }
    const Pack<float, V> dz = before_activation<T, V>(b, dys, residual, z);
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        xs.v[k] = from_float<T>(fmaf(dz.v[k], r.rstd * weight.v[k], fmaf(xhat.v[k], r.group.slope, r.group.level)));
        dys.v[k] = from_float<T>(dz.v[k]);
    }
    if (b.dx != nullptr) store_pack<T, V>(static_cast<T*>(b.dx) + start, first, length, xs);
    if (b.dresidual != nullptr) store_pack<T, V>(static_cast<T*>(b.dresidual) + start, first, length, dys);
}

// Computes dx and dresidual in the first `blocks` blocks, where a team of threads handles a slice of a row, in reverse
// order as in apply_rows. The other blocks compute dweight and dbias.
template <typename T, int V>
__global__ void __launch_bounds__(kSliceThreads) row_gradients(const Backward b, const Cut cut, const int team,
                                                               const int64_t blocks, const Pieces pieces) {
    await_earlier();
    if (blockIdx.x >= blocks) {
        add_planes<T>(b, pieces, blockIdx.x - blocks);
        return;
    }
    const Rows r = rows_of(b.n, b.channels, b.spatial, b.groups);
    const int64_t unit = (blocks - 1 - blockIdx.x) * (kSliceThreads / team) + threadIdx.x / team;
    const bool mine = unit < r.rows * cut.slices;
    const auto [row, slice] = split(unit, cut.slices);
    const int64_t channel = split(row, b.groups).remainder * r.group_channels;
    Pair total = {0.0, 0.0};
    if (mine) {
        const int64_t parts = r.group_channels * pieces.pieces;
        for (int64_t i = threadIdx.x % team; i < parts; i += team) {
            const Sums s = pieces.at[row * parts + i];
            const float weight = parameter<T>(b.weight, b.param_dtype, channel + quotient(i, pieces.pieces), 1.0f);
            total = total + Pair{static_cast<double>(weight) * s.db, static_cast<double>(weight) * s.ds};
        }
    }
    total = team_sum(total, team);
    if (!mine) return;
    const float rstd = b.rstd[row];
    const RowTerms terms = {b.mean[row], rstd, terms_of(total, rstd, r.length)};
    const int64_t start = row * r.length;
    const T* x = static_cast<const T*>(b.x) + start;
    const T* dy = static_cast<const T*>(b.dy) + start;
    const int64_t begin = slice * cut.packs * V - lead_of<T, V>(x);
    const int64_t last = begin + cut.packs * V;
    const int64_t end = last < r.length ? last : r.length;
    const int step = team * V;
    int64_t first = begin + threadIdx.x % team * V;
    const int64_t before = first < 0 ? 0 : quotient(first, b.spatial);
    Place<int64_t> at = {channel + before, first - before * b.spatial};
    const int64_t channels = quotient(step, b.spatial), positions = step - channels * b.spatial;
    for (; first < end; first += kGradientPacks * step) {
        Held<T, V> xs[kGradientPacks], dys[kGradientPacks];
        #pragma unroll
        for (int j = 0; j < kGradientPacks; ++j) {
            if (first + j * step >= end) break;
            xs[j] = load_held<T, V>(x, first + j * step, r.length);
            dys[j] = load_held<T, V>(dy, first + j * step, r.length);
        }
        #pragma unroll
        for (int j = 0; j < kGradientPacks; ++j) {
            if (first + j * step >= end) break;
            gradient_pack<T, V>(b, terms, elements_of<T>(xs[j]), elements_of<T>(dys[j]), start, first + j * step, r.length, at);
            at.advance(channels, positions, b.spatial);
        }
    }
}

}  // namespace kernelwright::group_norm
