// Backward of groups that are too large for one block, with one read of x and dy and one write of dx.
//
// As sm90_held.cuh: a team of blocks holds a group's x and dy in registers (three chunks of each per warp at most, so
// 192 KB of an SM), while the ring takes the next group. An 8 MiB group is 16 MiB here: one team of all SMs, 64 KB of
// each tensor on an SM. A turn at the copy rate is 25.2 MB / 4.3 TB/s = 5.9 us; the exchange takes 2 us of it and the
// ring holds 224 KB, of which a turn needs 128: it goes on loading for longer than anybody waits.
//
// Five passes over memory (the portable path) take 8.7 ms for the target shape, three 5.2 ms.
//
// A chunk lies in one channel. Its sums are kept for dweight and dbias, which channel_gradients adds up: 8 bytes for
// each 2 KB of x.
#pragma once

#include "portable_backward.cuh"
#include "sm90_held.cuh"

namespace kernelwright::group_norm::sm90 {

constexpr int kPairs = 3;  // chunks of x, and of dy, that a warp holds at most

template <typename T, int V>
__device__ __forceinline__ Pair gradient_sums(const Raw (&xs)[kLoads], const Raw (&dys)[kLoads], int bytes, float mean,
                                              float rstd) {
    float db = 0.0f;
    float ds = 0.0f;
    #pragma unroll
    for (int j = 0; j < kLoads; ++j) {
        if (static_cast<int>(j * kWarp + threadIdx.x % kWarp) * 16 >= bytes) break;
        const Pack<T, V> x = elements_of<T, V>(xs[j]);
        const Pack<T, V> dy = elements_of<T, V>(dys[j]);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float dz = to_float(dy.v[k]);
            db += dz;
            ds = fmaf(dz, (to_float(x.v[k]) - mean) * rstd, ds);
        }
    }
    return {db, ds};
}

template <typename T, int V>
__device__ __forceinline__ void store_gradient(unsigned char* dx, const Raw (&xs)[kLoads], const Raw (&dys)[kLoads],
                                               int bytes, float mean, float rstd, float scale, const GroupTerms& g) {
    #pragma unroll
    for (int j = 0; j < kLoads; ++j) {
        const int offset = static_cast<int>(j * kWarp + threadIdx.x % kWarp) * 16;
        if (offset >= bytes) break;
        Pack<T, V> x = elements_of<T, V>(xs[j]);
        const Pack<T, V> dy = elements_of<T, V>(dys[j]);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float xhat = (to_float(x.v[k]) - mean) * rstd;
            x.v[k] = from_float<T>(fmaf(to_float(dy.v[k]), scale, fmaf(xhat, g.slope, g.level)));
        }
        __stcs(reinterpret_cast<Raw*>(dx + offset), reinterpret_cast<const Raw&>(x));
    }
}

// sums[row * chunks + chunk].
template <typename T, int THREADS>
__global__ void __launch_bounds__(THREADS, 512 / THREADS)
    held_backward(const __grid_constant__ Backward b, const __grid_constant__ Team team, double* partials, Sums* sums) {
    constexpr int V = 16 / sizeof(T);
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ Board<THREADS / kWarp> board;
    __shared__ ClusterCells cells;
    const int lane = threadIdx.x % kWarp;
    const int member = blockIdx.x % team.members;
    const int first_row = blockIdx.x / team.members;
    Warp<2> w = begin_warp<2, THREADS>(shared, team, static_cast<int>(b.n * b.groups));
    w.tensors[0] = static_cast<const unsigned char*>(b.x);
    w.tensors[1] = static_cast<const unsigned char*>(b.dy);
    first_loads(w, team);

    const int groups = static_cast<int>(b.groups);
    const int group_channels = static_cast<int>(b.channels) / groups;
    const int plane_chunks = team.chunks / group_channels;
    Walk at = {first_row, 0, 0, 0};
    for (int row = first_row; row < w.rows; row += team.teams) {
        const float mean = b.mean[row];
        const float rstd = b.rstd[row];
        const int first_channel = row % groups * group_channels;
        Raw held[2 * kPairs][kLoads];
        float weights[kPairs];
        Pair total = {0.0, 0.0};
        #pragma unroll
        for (int i = 0; i < kPairs; ++i) {
            if (i >= w.chunks) break;
            const int chunk = w.chunk_at(2 * i);
            #pragma unroll
            for (int tensor = 0; tensor < 2; ++tensor) {
                barrier_wait(w.barriers + at.slot, at.parity);
                read_slot(w.ring, at.slot, held[2 * i + tensor]);
                advance(at, 2 * w.chunks, team.teams);
            }
            weights[i] = parameter<T>(b.weight, b.param_dtype, first_channel + chunk / plane_chunks, 1.0f);
            Pair mine = gradient_sums<T, V>(held[2 * i], held[2 * i + 1], chunk_bytes(team, chunk), mean, rstd);
            mine = warp_sum(mine, kWarp);  // and so all lanes have read both slots
            if (lane == 0) {
                w.load(team);
                w.load(team);
                sums[int64_t{row} * team.chunks + chunk] = {static_cast<float>(mine.a), static_cast<float>(mine.b)};
                total = total + Pair{weights[i] * mine.a, weights[i] * mine.b};
            }
        }
        total = team_total<THREADS, Exchange::kGlobal>(total, board, cells, partials, row, 0, member, team);
        const double share = rstd * team.share;
        const GroupTerms g = {static_cast<float>(-total.b * share), static_cast<float>(-total.a * share)};
        #pragma unroll
        for (int i = 0; i < kPairs; ++i) {
            if (i >= w.chunks) break;
            const int chunk = w.chunk_at(2 * i);
            unsigned char* dx = static_cast<unsigned char*>(b.dx) + row * team.bytes + int64_t{chunk} * kChunkBytes;
            store_gradient<T, V>(dx, held[2 * i], held[2 * i + 1], chunk_bytes(team, chunk), mean, rstd,
                                 rstd * weights[i], g);
        }
    }
}

// dweight and dbias of one channel per block, from `pieces` sums for each plane.
template <typename T>
__global__ void __launch_bounds__(kChannelThreads) channel_gradients(const Backward b, const Sums* sums, const int pieces) {
    const int64_t channel = blockIdx.x;
    Pair total = {0.0, 0.0};
    for (int64_t n = 0; n < b.n; ++n) {
        const Sums* plane = sums + (n * b.channels + channel) * pieces;
        for (int i = threadIdx.x; i < pieces; i += kChannelThreads) total = total + Pair{plane[i].db, plane[i].ds};
    }
    total = team_sum(total, kChannelThreads);
    if (threadIdx.x != 0) return;
    if (b.dbias != nullptr) set_parameter<T>(b.dbias, b.param_dtype, channel, static_cast<float>(total.a));
    if (b.dweight != nullptr) set_parameter<T>(b.dweight, b.param_dtype, channel, static_cast<float>(total.b));
}

}  // namespace kernelwright::group_norm::sm90
