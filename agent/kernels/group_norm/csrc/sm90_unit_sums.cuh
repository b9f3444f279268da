// Reduction to dweight and dbias in a cluster that holds a group of all samples.
#pragma once

#include "../../csrc/bulk_sm90.cuh"
#include "../../csrc/cluster_sm90.cuh"
#include "../../csrc/divisor.cuh"
#include "portable_backward.cuh"

namespace kernelwright::group_norm::sm90 {

using namespace kernelwright::sm90;

// Sums of the units of a group of all samples, in the shared memory of a cluster's blocks. Channel c is in block c %
// blocks, ordered by channel, sample and piece.
struct UnitSums {
    Sums* here;
    int blocks;    // blocks of the cluster
    int parts;     // parts of a channel
    Divisor<int> by_all_blocks;
    uint64_t* all_came;

    // Called by the thread that initialises the block's barriers; prepares the barrier for sums sent by other blocks.
    __device__ __forceinline__ void prepare(int group_channels) const {
        if (blocks == 1) return;
        barrier_init(all_came);
        barrier_expect(all_came, channels_here(group_channels) * parts * sizeof(Sums));
    }
    // Returns the number of channels that this block reduces.
    __device__ __forceinline__ int channels_here(int group_channels) const {
        return quotient(group_channels - cluster_rank() + blocks - 1, by_all_blocks);
    }
    // Sends one component (db or ds) of a part's sums to the block that reduces its channel.
    __device__ __forceinline__ void give(int channel, int part, bool is_db, float sum) const {
        const int before = quotient(channel, by_all_blocks);
        Sums& place = here[before * parts + part];
        float* to = is_db ? &place.db : &place.ds;
        if (blocks == 1) {
            *to = sum;  // visible to the block after the barrier of the row's sums
        } else {
            send_to_block(to, channel - before * blocks, sum, all_came);
        }
    }
};

// Reduces this block's channels of the group to dweight and dbias. Each sum has as many lanes as the channel has parts.
template <typename T>
__device__ __forceinline__ void add_up(const Backward& b, const UnitSums& sums, int group_channel, int group_channels) {
    int log_team = 0;
    while (1 << log_team < sums.parts && log_team < 5) ++log_team;
    const int part_of_lane = threadIdx.x & ((1 << log_team) - 1);
    const int first = static_cast<int>(threadIdx.x) >> log_team;
    if (sums.blocks > 1) barrier_wait(sums.all_came, 0);
    const int channels = sums.channels_here(group_channels);
    #pragma unroll 1
    for (int base = 0; base < 2 * channels; base += static_cast<int>(blockDim.x) >> log_team) {
        const int i = (base + first) / 2;
        const bool is_db = (base + first) % 2 == 0;
        double total = 0.0;
        #pragma unroll 1
        for (int part = part_of_lane; i < channels && part < sums.parts; part += 1 << log_team) {
            const Sums& place = sums.here[i * sums.parts + part];
            total += is_db ? place.db : place.ds;
        }
        #pragma unroll 1
        for (int offset = 1 << log_team >> 1; offset > 0; offset /= 2) total += __shfl_xor_sync(0xffffffffu, total, offset);
        void* to = is_db ? b.dbias : b.dweight;
        if (part_of_lane != 0 || i >= channels || to == nullptr) continue;
        set_parameter<T>(to, b.param_dtype, group_channel + i * sums.blocks + cluster_rank(), static_cast<float>(total));
    }
}

}  // namespace kernelwright::group_norm::sm90
