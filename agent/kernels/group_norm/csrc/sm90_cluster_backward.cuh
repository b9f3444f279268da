// Backward of groups whose x and dy a cluster holds (sm90_cluster.cuh). channel_gradients adds up what it leaves of each
// plane to dweight and dbias.
#pragma once

#include "portable_backward.cuh"
#include "sm90_cluster.cuh"

namespace kernelwright::group_norm::sm90 {

// How a row is shared out among the blocks of a cluster. Its units are pieces of planes, `pieces` of one; a team of threads
// within a warp takes one unit after the other.
struct BackwardShare {
    int blocks;
    int threads;
    int row_units;
    int units, more;   // of a block, and how many blocks take one more
    int pieces;
    int unit_packs;    // the last of a plane has what is left
    int plane_packs;
    int packs;         // of a block, at most
    int team;          // a power of two, at least 2
    int groups, group_channels;
    double inverse;    // 1 / elements of a row
};

// One unit: its channel and its packs, counted from the row's first.
struct Unit {
    int channel;
    int begin, end;
};

__device__ __forceinline__ Unit unit_of(const BackwardShare& share, int unit) {
    const int channel = unit / share.pieces;
    const int first = (unit - channel * share.pieces) * share.unit_packs;
    const int begin = channel * share.plane_packs;
    return {channel, begin + first, begin + min(first + share.unit_packs, share.plane_packs)};
}

// dz of a pack and its xhat; `at` is the pack's place in the tensor.
template <typename T, int V>
__device__ __forceinline__ Pack<float, V> gradient_before(const Backward& b, const Raw& x, const Raw& dy, int64_t at,
                                                          const Channel& c, Pack<float, V>& xhat) {
    const Pack<T, V> values = elements_of<T>(x);
    const Pack<T, V> gradients = elements_of<T>(dy);
    Pack<float, V> dz;
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        xhat.v[k] = (to_float(values.v[k]) - c.mean) * c.rstd;
        dz.v[k] = to_float(gradients.v[k]);
    }
    if (b.act == kNone) return dz;
    Pack<float, V> z;
    #pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = fmaf(xhat.v[k], c.weight, c.bias);
    if (b.residual != nullptr) {
        const Pack<T, V> residual = static_cast<const Pack<T, V>*>(b.residual)[at];
        #pragma unroll
        for (int k = 0; k < V; ++k) z.v[k] += to_float(residual.v[k]);
    }
    z = slopes<T, V>(b.act, z);
    #pragma unroll
    for (int k = 0; k < V; ++k) dz.v[k] *= z.v[k];
    return dz;
}

template <typename T>
__global__ void __launch_bounds__(kMaxClusterThreads)
    cluster_backward(const __grid_constant__ Backward b, const __grid_constant__ BackwardShare share, Sums* sums) {
    constexpr int V = 16 / sizeof(T);
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ Arrivals arrivals;
    const int row = cluster_number();
    const int rank = cluster_rank();
    const int first_unit = rank * share.units + min(rank, share.more);
    const int last_unit = first_unit + share.units - (rank < share.more ? 0 : 1);
    const Unit first_held = unit_of(share, first_unit);
    const Unit last_held = unit_of(share, last_unit);
    const int64_t start = int64_t{row} * share.group_channels * share.plane_packs + first_held.begin;  // in packs
    Raw* xs = reinterpret_cast<Raw*>(shared);
    Raw* dys = xs + share.packs;
    Affine* affine = reinterpret_cast<Affine*>(dys + share.packs);
    begin_loads<T, 2>({static_cast<const Raw*>(b.x) + start, static_cast<const Raw*>(b.dy) + start}, {xs, dys},
                      last_held.end - first_held.begin, b,
                      row % share.groups * share.group_channels + first_held.channel,
                      last_held.channel - first_held.channel + 1, affine, arrivals);
    __syncwarp();
    cluster_arrive();
    Channel c = {b.mean[row], b.rstd[row], 1.0f, 0.0f};
    barrier_wait(&arrivals.parameters, 0);

    const int threads = blockDim.x;
    const int team = share.team;
    const int lane = threadIdx.x % team;
    const int teams = threads / team;
    const int mine = first_unit + threadIdx.x / team;
    // The packs of a unit that are held, and the parameters of its channel.
    const auto held = [&](int number) {
        const Unit unit = unit_of(share, number);
        c.weight = affine[unit.channel - first_held.channel].weight;
        c.bias = affine[unit.channel - first_held.channel].bias;
        return int2{unit.begin - first_held.begin, unit.end - first_held.begin};
    };
    Pair total = {0.0, 0.0};
    int waited = 0;  // packs whose tiles have been waited for
    uint64_t* next = arrivals.tiles;
    for (int base = first_unit; base <= last_unit; base += teams) {
        const int number = base - first_unit + mine;
        float db = 0.0f;
        float ds = 0.0f;
        if (number <= last_unit) {
            const int2 packs = held(number);
            for (; waited < packs.y; waited += threads) barrier_wait(next++, 0);
            #pragma unroll 2
            for (int i = packs.x + lane; i < packs.y; i += team) {
                Pack<float, V> xhat;
                const auto dz = gradient_before<T, V>(b, xs[i], dys[i], start + i, c, xhat);
                #pragma unroll
                for (int k = 0; k < V; ++k) {
                    db += dz.v[k];
                    ds = fmaf(dz.v[k], xhat.v[k], ds);
                }
            }
        }
        const float sum = halves_sum(db, ds, team);
        const bool is_db = lane == 0;
        const bool is_ds = lane == team / 2;
        if (number > last_unit || !(is_db || is_ds)) continue;
        Sums& of_unit = sums[int64_t{row} * share.row_units + number];
        (is_db ? of_unit.db : of_unit.ds) = sum;
        (is_db ? total.a : total.b) += static_cast<double>(c.weight) * sum;
    }
    total = cluster_sum(total, share.blocks);
    const double inverse = c.rstd * share.inverse;
    const GroupTerms g = {static_cast<float>(-total.b * inverse), static_cast<float>(-total.a * inverse)};

    for (int number = mine; number <= last_unit; number += teams) {
        const int2 packs = held(number);
        #pragma unroll 2
        for (int i = packs.x + lane; i < packs.y; i += team) {
            Pack<float, V> xhat;
            const auto dz = gradient_before<T, V>(b, xs[i], dys[i], start + i, c, xhat);
            Pack<T, V> dx;
            Pack<T, V> dresidual;
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                dx.v[k] = from_float<T>(fmaf(dz.v[k], c.rstd * c.weight, fmaf(xhat.v[k], g.slope, g.level)));
                dresidual.v[k] = from_float<T>(dz.v[k]);
            }
            if (b.dx != nullptr) static_cast<Pack<T, V>*>(b.dx)[start + i] = dx;
            if (b.dresidual != nullptr) static_cast<Pack<T, V>*>(b.dresidual)[start + i] = dresidual;
        }
    }
}

}  // namespace kernelwright::group_norm::sm90
