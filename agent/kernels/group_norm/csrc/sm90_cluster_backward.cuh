// Backward of groups whose x and dy a cluster holds (sm90_cluster.cuh). A cluster with room for a group of all samples
// computes dweight and dbias too. For other clusters channel_gradients computes them, from the sums that are kept of
// each plane.
#pragma once

#include "portable_backward.cuh"
#include "sm90_cluster.cuh"
#include "sm90_unit_sums.cuh"

namespace kernelwright::group_norm::sm90 {

// Distribution of a row over the blocks of a cluster. Its units are parts of planes, `pieces` per plane. A team of
// threads within a warp sums one unit after the other.
struct BackwardShare {
    int blocks;
    int threads;
    int row_units;
    int units, more;   // units of a block, and the number of blocks with one unit more
    int pieces;
    int unit;          // elements of a unit; the last unit of a plane has the remainder
    int spatial;
    int packs;         // maximum packs of a row that a block holds
    int team;          // a power of two, at least 2
    int groups, group_channels;
    int channels;      // maximum channels whose parameters a block needs
    int step, rest;    // channels and positions from a thread's pack to its next one
    int samples;       // samples whose rows of one group a cluster handles, with `blocks` blocks each: all, or one
    int adds_up;       // nonzero if the cluster computes dweight and dbias
    int is_last_read;  // nonzero if x and dy are read with evict-first
    double inverse;    // 1 / elements of a row
    Divisor<int> by_spatial{1}, by_groups{1}, by_pieces{1}, by_blocks{1};
    Divisor<int> by_all_blocks{1};  // divides by the number of all blocks of a cluster
};

// A unit: its channel and its elements, relative to the row's first.
struct Unit {
    int channel;
    int begin, end;
};

__device__ __forceinline__ Unit unit_of(const BackwardShare& share, int number) {
    const int channel = quotient(number, share.by_pieces);
    const int first = (number - channel * share.pieces) * share.unit;
    const int begin = channel * share.spatial;
    return {channel, begin + first, begin + min(first + share.unit, share.spatial)};
}

// Parameters of a pack's lanes: `here` for the first `left` lanes, `next` for the others.
struct Lanes {
    Affine here, next;
    int left;

    __device__ __forceinline__ float weight(int k) const { return k < left ? here.weight : next.weight; }
    __device__ __forceinline__ float bias(int k) const { return k < left ? here.bias : next.bias; }
};

// Values common to a row's elements. `start` is the offset of the row's first element in the tensor.
struct Row {
    int64_t start;
    float mean, rstd;
};

// Returns dz and x - mean of the pack whose lane 0 is element `first` of its row. `act` is kNone if `dy` already holds
// dz.
template <typename T, int V>
__device__ __forceinline__ Pack<float, V> gradient_before(const Backward& b, int64_t act, const Row& row,
                                                          const Held<T, V>& x, const Held<T, V>& dy, int first,
                                                          const Lanes& lanes, Pack<float, V>& centred) {
    const Pack<T, V> values = elements_of<T>(x);
    const Pack<T, V> gradients = elements_of<T>(dy);
    Pack<float, V> dz;
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        centred.v[k] = to_float(values.v[k]) - row.mean;
        dz.v[k] = to_float(gradients.v[k]);
    }
    if (act == kNone) return dz;
    Pack<float, V> z;
    #pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = fmaf(centred.v[k], row.rstd * lanes.weight(k), lanes.bias(k));
    if (b.residual != nullptr) {
        const T* from = static_cast<const T*>(b.residual) + row.start + first;
        const Pack<T, V> residual = *reinterpret_cast<const Pack<T, V>*>(from);
        #pragma unroll
        for (int k = 0; k < V; ++k) z.v[k] += to_float(residual.v[k]);
    }
    z = slopes<T, V>(act, z);
    #pragma unroll
    for (int k = 0; k < V; ++k) dz.v[k] *= z.v[k];
    return dz;
}

// Stores dx and dresidual of the pack whose lane 0 is element `first` of its row. The slope in `group` applies to x -
// mean.
template <typename T, int V>
__device__ __forceinline__ void store_gradients(const Backward& b, int64_t act, const Row& row, const Held<T, V>& x,
                                                const Held<T, V>& dy, int first, const Lanes& lanes,
                                                const GroupTerms& group) {
    Pack<float, V> centred;
    const auto dz = gradient_before<T, V>(b, act, row, x, dy, first, lanes, centred);
    Pack<T, V> dx;
    Pack<T, V> dresidual;
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        const float others = fmaf(centred.v[k], group.slope, group.level);
        dx.v[k] = from_float<T>(fmaf(dz.v[k], row.rstd * lanes.weight(k), others));
        dresidual.v[k] = from_float<T>(dz.v[k]);
    }
    const int64_t at = row.start + first;
    if (b.dx != nullptr) *reinterpret_cast<Pack<T, V>*>(static_cast<T*>(b.dx) + at) = dx;
    if (b.dresidual != nullptr) *reinterpret_cast<Pack<T, V>*>(static_cast<T*>(b.dresidual) + at) = dresidual;
}

template <typename T>
__device__ __forceinline__ Pack<T, 1> element_of(const void* tensor, int64_t at) {
    return {static_cast<const T*>(tensor)[at]};
}

template <typename T>
__global__ void __launch_bounds__(kMaxClusterThreads)
    cluster_backward(const __grid_constant__ Backward b, const __grid_constant__ BackwardShare share, Sums* sums) {
    let_next_begin();
    constexpr int V = 16 / sizeof(T);
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ Arrivals arrivals;
    __shared__ Mailbox box;
    __shared__ uint64_t units_came;
    const int sample = quotient(cluster_rank(), share.by_blocks);  // index of the sample within the cluster
    const int number = sample * share.groups + cluster_number();
    const int rank = cluster_rank() - sample * share.blocks;
    const int first_unit = rank * share.units + min(rank, share.more);
    const int last_unit = first_unit + share.units - (rank < share.more ? 0 : 1);
    const Unit first_held = unit_of(share, first_unit);
    const Unit last_held = unit_of(share, last_unit);
    const int length = share.group_channels * share.spatial;
    Row row = {int64_t{number} * length, 0.0f, 0.0f};
    const T* x = static_cast<const T*>(b.x) + row.start;
    const T* dy = static_cast<const T*>(b.dy) + row.start;
    const int head = head_of<T, V>(x);
    Holding held = {max(first_held.begin - head, 0) / V, 0, head};
    held.count = min((last_held.end - head + V - 1) / V, (length - head) / V) - held.begin;
    const bool cut = head != 0 || share.spatial % V != 0;
    Raw* xs = reinterpret_cast<Raw*>(shared);
    Raw* dys = xs + share.packs;
    Affine* affine = reinterpret_cast<Affine*>(dys + share.packs);
    // Adds one channel, since the last pack may extend into it.
    const int channels = min(last_held.channel + 2, share.group_channels) - first_held.channel;
    const int group_channel = (number - quotient(number, share.by_groups) * share.groups) * share.group_channels;
    const UnitSums of_units = {reinterpret_cast<Sums*>(affine + share.channels), share.samples * share.blocks,
                               share.samples * share.pieces, share.by_all_blocks, &units_came};
    prepare(arrivals, box, held.count, share.blocks, [&] {
        if (share.adds_up) of_units.prepare(share.group_channels);
    });
    await_earlier();
    begin_loads<T, 2>({x, dy}, {xs, dys}, held, b, group_channel + first_held.channel, channels, affine, arrivals,
                      share.is_last_read);
    __syncwarp();
    row.mean = b.mean[number];
    row.rstd = b.rstd[number];
    cluster_wait();
    barrier_wait(&arrivals.parameters, 0);

    const int threads = blockDim.x;
    const int team = share.team;
    const int log_team = __ffs(team) - 1;
    const int lane = threadIdx.x & (team - 1);
    const int teams = threads >> log_team;
    // Overwrites dy with dz if dz is stored without loss and no pack is shared by two threads.
    const bool keeps = sizeof(T) == sizeof(float) && b.act != kNone && !cut;
    Pair total = {0.0, 0.0};
    int waited = 0;  // packs whose tiles have arrived
    uint64_t* next = arrivals.tiles;
    #pragma unroll 1
    for (int base = first_unit; base <= last_unit; base += teams) {
        const int mine = base + (static_cast<int>(threadIdx.x) >> log_team);
        float db = 0.0f;
        float ds = 0.0f;
        Affine of_unit = {1.0f, 0.0f};
        if (mine <= last_unit) {
            const Unit unit = unit_of(share, mine);
            of_unit = affine[unit.channel - first_held.channel];
            const Lanes lanes = {of_unit, of_unit, V};
            const int begin = (unit.begin - head + V - 1) / V;
            const int end = max((unit.end - head) / V, begin);
            const int touched = min((unit.end - head + V - 1) / V - held.begin, held.count);
            #pragma unroll 1
            for (; waited < touched; waited += threads) barrier_wait(next++, 0);
            #pragma unroll 1
            for (int i = begin - held.begin + lane; i < end - held.begin; i += team) {
                Pack<float, V> centred;
                const auto dz = gradient_before<T, V>(b, b.act, row, xs[i], dys[i], held.element<V>(i), lanes, centred);
                #pragma unroll
                for (int k = 0; k < V; ++k) {
                    db += dz.v[k];
                    ds = fmaf(dz.v[k], centred.v[k], ds);
                }
                if (keeps) dys[i] = reinterpret_cast<const Raw&>(dz);
            }
            if (cut) {  // elements at the unit's ends, in packs that it shares with other units
                const int before = min(head + begin * V, unit.end) - unit.begin;
                const int after = head + end * V;
                #pragma unroll 1
                for (int i = lane; i < before + max(unit.end - after, 0); i += team) {
                    const int element = i < before ? unit.begin + i : after + i - before;
                    const int place = element - held.element<V>(0);
                    const bool is_held = place >= 0 && place < held.count * V;
                    const Pack<T, 1> value = is_held ? element_of<T>(xs, place) : element_of<T>(x, element);
                    const Pack<T, 1> gradient = is_held ? element_of<T>(dys, place) : element_of<T>(dy, element);
                    Pack<float, 1> centred;
                    const auto dz = gradient_before<T, 1>(b, b.act, row, value, gradient, element, lanes, centred);
                    db += dz.v[0];
                    ds = fmaf(dz.v[0], centred.v[0], ds);
                }
            }
        }
        const float sum = halves_sum(db, ds * row.rstd, team);
        const bool is_db = lane == 0;
        const bool is_ds = lane == team / 2;
        if (mine > last_unit || !(is_db || is_ds)) continue;
        if (share.adds_up) {
            const int channel = quotient(mine, share.by_pieces);
            of_units.give(channel, sample * share.pieces + mine - channel * share.pieces, is_db, sum);
        } else {
            Sums& place = sums[int64_t{number} * share.row_units + mine];
            (is_db ? place.db : place.ds) = sum;
        }
        (is_db ? total.a : total.b) += static_cast<double>(of_unit.weight) * sum;
    }
    total = cluster_sum(total, {sample * share.blocks, share.blocks, rank}, box);
    const double inverse = row.rstd * share.inverse;
    const GroupTerms g = {static_cast<float>(-total.b * inverse * row.rstd), static_cast<float>(-total.a * inverse)};

    const int64_t act = keeps ? int64_t{kNone} : b.act;
    const int end = end_of<V>(end_taker(rank), head, length);
    if (end >= 0) {
        const Affine of_end = affine_of<T>(b.weight, b.bias, b.param_dtype, group_channel + end / share.spatial);
        store_gradients<T, 1>(b, act, row, {x[end]}, {dy[end]}, end, {of_end, of_end, 1}, g);
    }
    // Skips a pack that the previous block handles: the first of two blocks that hold a pack does.
    const int skipped = held.element<V>(0) < first_held.begin ? 1 : 0;
    const int element = held.element<V>(skipped + threadIdx.x);
    int channel = quotient(element, share.by_spatial);
    int position = element - channel * share.spatial;
    channel -= first_held.channel;
    #pragma unroll 1
    for (int i = skipped + threadIdx.x; i < held.count; i += threads) {
        const int first = held.element<V>(i);
        const Affine here = affine[channel];
        const int left = share.spatial - position;
        if (!some_end_in_next(left < V)) {
            store_gradients<T, V>(b, act, row, xs[i], dys[i], first, {here, here, V}, g);
        } else {
            const Affine next = affine[min(channel + 1, channels - 1)];
            store_gradients<T, V>(b, act, row, xs[i], dys[i], first, {here, next, left}, g);
        }
        channel += share.step;
        position += share.rest;
        if (position >= share.spatial) {
            position -= share.spatial;
            ++channel;
        }
    }
    if (share.adds_up) add_up<T>(b, of_units, group_channel, share.group_channels);
}

}  // namespace kernelwright::group_norm::sm90
