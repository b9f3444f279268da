// Cooperative groups: thread_block, tiled_partition, coalesced_threads, and the grid.
//
// Replaces NVIDIA's header, whose groups are inline PTX. Cluster groups are missing; constructs.unsupported reports
// sources that use them.
#pragma once

#include "kw/device.h"

namespace cooperative_groups {

namespace details {

inline unsigned block_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
inline unsigned block_threads() { return blockDim.x * blockDim.y * blockDim.z; }
inline unsigned lanes_below() { return (1u << kw_lane) - 1; }

// Returns the lane of the bit with number `rank` among the set bits of the mask.
inline int lane_of_rank(unsigned mask, unsigned rank) {
    for (; rank > 0; rank--) mask &= mask - 1;
    return __ffs(static_cast<int>(mask)) - 1;
}

// Shuffles a trivially copyable value word by word.
template <class T>
T shuffle(int kind, unsigned mask, const T& value, int argument, int width, int line) {
    static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= 32, "up to 32 bytes, trivially copyable");
    T result;
    for (size_t offset = 0; offset < sizeof(T); offset += 8) {
        const size_t bytes = sizeof(T) - offset < 8 ? sizeof(T) - offset : 8;
        uint64_t word = 0;
        std::memcpy(&word, reinterpret_cast<const char*>(&value) + offset, bytes);
        word = kw_warp_op(kind, mask, word, argument, width, line);
        std::memcpy(reinterpret_cast<char*>(&result) + offset, &word, bytes);
    }
    return result;
}

}  // namespace details

// Group of any kind, a block or some lanes of a warp, as a parameter type.
class thread_group {
  public:
    unsigned size() const { return whole_block_ ? details::block_threads() : static_cast<unsigned>(__popc(mask_)); }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const {
        return whole_block_ ? details::block_rank() : static_cast<unsigned>(__popc(mask_ & details::lanes_below()));
    }
    void sync(int line = __builtin_LINE()) const {
        if (whole_block_) {
            kw_barrier(KW_BARRIER_PLAIN, 0, line, -1);
        } else {
            kw_warp_op(KW_SYNC, mask_, 0, 0, 32, line);
        }
    }

  protected:
    thread_group(bool whole_block, unsigned mask) : whole_block_(whole_block), mask_(mask) {}
    bool whole_block_;
    unsigned mask_;
};

class thread_block : public thread_group {
  public:
    thread_block() : thread_group(true, 0) {}
    static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
};

inline thread_block this_thread_block() { return {}; }

// All blocks of a cooperative launch.
class grid_group {
  public:
    static unsigned long long num_blocks() { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long num_threads() { return num_blocks() * details::block_threads(); }
    static unsigned long long size() { return num_threads(); }
    static unsigned long long block_rank() {
        return blockIdx.x + 1ull * gridDim.x * (blockIdx.y + 1ull * gridDim.y * blockIdx.z);
    }
    static unsigned long long thread_rank() { return block_rank() * details::block_threads() + details::block_rank(); }
    static dim3 group_dim() { return gridDim; }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static bool is_valid() { return true; }
    static void sync(int line = __builtin_LINE()) { kw_grid_sync(line); }
};

inline grid_group this_grid() { return {}; }

// Group of lanes of a warp with votes and matches. The masks that these return have one bit per rank in the group.
class lane_group : public thread_group {
  public:
    int any(int predicate, int line = __builtin_LINE()) const {
        return static_cast<int>(kw_warp_op(KW_ANY, mask_, predicate != 0, 0, 32, line));
    }
    int all(int predicate, int line = __builtin_LINE()) const {
        return static_cast<int>(kw_warp_op(KW_ALL, mask_, predicate != 0, 0, 32, line));
    }
    unsigned ballot(int predicate, int line = __builtin_LINE()) const {
        return packed(static_cast<unsigned>(kw_warp_op(KW_BALLOT, mask_, predicate != 0, 0, 32, line)));
    }
    template <class T>
    unsigned match_any(T value, int line = __builtin_LINE()) const {
        return packed(static_cast<unsigned>(kw_warp_op(KW_MATCH_ANY, mask_, kw::to_bits(value), 0, 32, line)));
    }
    template <class T>
    unsigned match_all(T value, int& predicate, int line = __builtin_LINE()) const {
        const uint64_t lanes = kw_warp_op(KW_MATCH_ALL, mask_, kw::to_bits(value), 0, 32, line);
        predicate = lanes != 0;
        return packed(static_cast<unsigned>(lanes));
    }

  protected:
    explicit lane_group(unsigned mask) : thread_group(false, mask) {}

  private:
    unsigned packed(unsigned lanes) const {
        unsigned result = 0;
        unsigned rank = 0;
        for (unsigned rest = mask_; rest != 0; rest &= rest - 1, rank++) {
            if (lanes & (rest & -rest)) result |= 1u << rank;
        }
        return result;
    }
};

template <unsigned Size, class Parent = void>
class thread_block_tile : public lane_group {
    static_assert(Size <= 32 && (Size & (Size - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");

  public:
    thread_block_tile() : lane_group((Size == 32 ? ~0u : (1u << Size % 32) - 1) << kw_lane / Size * Size) {}
    // As in CUDA, a tile with a parent type converts to a tile without one.
    template <class Other>
    thread_block_tile(const thread_block_tile<Size, Other>& other) : lane_group(other) {}
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    unsigned thread_rank() const { return static_cast<unsigned>(kw_lane) % Size; }
    unsigned meta_group_rank() const { return details::block_rank() / Size; }
    unsigned meta_group_size() const { return (details::block_threads() + Size - 1) / Size; }

    template <class T>
    T shfl(T value, int rank, int line = __builtin_LINE()) const {
        return details::shuffle(KW_SHUFFLE_INDEX, mask_, value, rank, Size, line);
    }
    template <class T>
    T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
        return details::shuffle(KW_SHUFFLE_UP, mask_, value, static_cast<int>(delta), Size, line);
    }
    template <class T>
    T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
        return details::shuffle(KW_SHUFFLE_DOWN, mask_, value, static_cast<int>(delta), Size, line);
    }
    template <class T>
    T shfl_xor(T value, unsigned rank_mask, int line = __builtin_LINE()) const {
        return details::shuffle(KW_SHUFFLE_XOR, mask_, value, static_cast<int>(rank_mask), Size, line);
    }
};

template <unsigned Size, class Parent>
thread_block_tile<Size, Parent> tiled_partition(const Parent&) {
    return {};
}

inline thread_block_tile<1> this_thread() { return {}; }

class coalesced_group : public lane_group {
  public:
    explicit coalesced_group(unsigned mask) : lane_group(mask) {}

    template <class T>
    T shfl(T value, int rank, int line = __builtin_LINE()) const {
        const int lane = details::lane_of_rank(mask_, static_cast<unsigned>(rank) % size());
        return details::shuffle(KW_SHUFFLE_INDEX, mask_, value, lane, 32, line);
    }
    template <class T>
    T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
        const unsigned rank = thread_rank();
        return shfl(value, static_cast<int>(rank < delta ? rank : rank - delta), line);
    }
    template <class T>
    T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
        const unsigned rank = thread_rank();
        return shfl(value, static_cast<int>(rank + delta < size() ? rank + delta : rank), line);
    }
};

inline coalesced_group coalesced_threads(int line = __builtin_LINE()) {
    return coalesced_group(static_cast<unsigned>(kw_warp_op(KW_ACTIVE_MASK, 0, 0, 0, 32, line)));
}

template <class Group>
void sync(const Group& group, int line = __builtin_LINE()) {
    group.sync(line);
}

}  // namespace cooperative_groups
