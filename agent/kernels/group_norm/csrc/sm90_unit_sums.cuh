// What the blocks of a cluster that holds a group in all samples add up to dweight and dbias.
#pragma once

#include "../../csrc/bulk_sm90.cuh"
#include "../../csrc/cluster_sm90.cuh"
#include "../../csrc/divisor.cuh"
#include "portable_backward.cuh"

namespace kernelwright::group_norm::sm90 {

using namespace kernelwright::sm90;

// The sums of the units of a group in all samples lie in the shared memory of a cluster's blocks: of channel c in block
// c % blocks, channel after channel, each sample after sample and piece after piece.
struct UnitSums {
    Sums* here;
    int blocks;    // of the cluster
    int parts;     // of a channel
    Divisor<int> by_all_blocks;
    uint64_t* all_came;

    // By the thread that makes the block's barriers.
    __device__ __forceinline__ void prepare(int group_channels) const {
        if (blocks == 1) return;
        barrier_init(all_came);
        barrier_expect(all_came, channels_here(group_channels) * parts * sizeof(Sums));
    }
    // That this block adds up.
    __device__ __forceinline__ int channels_here(int group_channels) const {
        return quotient(group_channels - cluster_rank() + blocks - 1, by_all_blocks);
    }
    // A half of the sums of one part, to the block that adds them up.
    __device__ __forceinline__ void give(int channel, int part, bool is_db, float sum) const {
        const int before = quotient(channel, by_all_blocks);
        Sums& place = here[before * parts + part];
        float* to = is_db ? &place.db : &place.ds;
        if (blocks == 1) {
            *to = sum;  // before the row's sums, which the block's threads wait for together
        } else {
            send_to_block(to, channel - before * blocks, sum, all_came);
        }
    }
};

// dweight and dbias of this block's channels of the group: of each channel as many lanes add up either as it has parts.
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
