// What device code calls of libkw_runtime; nothing of it is for Python.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// For the launch that the same thread makes next: calls the kernel so that it says its signature by kw_kernel_is
// and returns. Only where every kernel that can be launched does so while kw_asking_name is set.
void kw_name_kernel(void (*entry)(void*), void* arguments);
void kw_kernel_is(const char* signature);

// One __shared__ variable of one function (instance). Its offset holds for the launch with that serial.
typedef struct kw_shared_site {
    size_t bytes;
    const char* name;
    int line;
    uint32_t launch;
    uint32_t offset;
} kw_shared_site;

// Gives the variable its place in the shared memory of the current launch.
void kw_place_shared(kw_shared_site* site);

enum { KW_BARRIER_PLAIN, KW_BARRIER_COUNT, KW_BARRIER_AND, KW_BARRIER_OR };

// Block barrier; site tells apart two barriers on one line. The result is that of the reduction.
int kw_barrier(int kind, int predicate, int line, int site);

enum {
    KW_SHUFFLE_INDEX,
    KW_SHUFFLE_UP,
    KW_SHUFFLE_DOWN,
    KW_SHUFFLE_XOR,
    KW_BALLOT,
    KW_ANY,
    KW_ALL,
    KW_SYNC,
    KW_MATCH_ANY,
    KW_MATCH_ALL,
    KW_REDUCE_ADD,
    KW_REDUCE_MIN,
    KW_REDUCE_MAX,
    KW_REDUCE_MIN_UNSIGNED,
    KW_REDUCE_MAX_UNSIGNED,
    KW_REDUCE_AND,
    KW_REDUCE_OR,
    KW_REDUCE_XOR,
    KW_ACTIVE_MASK,
    KW_COLLECT
};

// Warp operation among the lanes in mask. argument: source lane or distance; width: of a shuffle segment.
uint64_t kw_warp_op(int kind, uint32_t mask, uint64_t value, int argument, int width, int line);

// bar.sync and bar.arrive of the block's barrier `number`, 0 to 15, for `threads` of its threads (0: all of them).
// The result of kw_named_sync is that of the reduction.
int kw_named_sync(int number, int threads, int kind, int predicate, int line);
void kw_named_arrive(int number, int threads, int line);

// An operation of the whole warp, such as mma.sync: the last lane to come calls `compute` with what each lane
// brought, room of the emulator's own where a lane has returned.
typedef void (*kw_collected)(void* const* lanes);
enum { KW_COLLECTED_BYTES = 1024 };  // that a lane may bring, at most
void kw_warp_collect(kw_collected compute, void* mine, int line);

// Within `compute`: tells of an access by that lane.
void kw_lane_access(int lane, const void* address, size_t bytes, int writes, void* code);

// Products of a warpgroup (wgmma). What the thread has committed and waited for, in groups, how often it has fenced, and
// what it had committed when it waited last.
typedef struct kw_products {
    uint32_t committed, done, fences, waited;
} kw_products;
kw_products kw_products_now(void);
void kw_products_fence(void);
void kw_products_commit(void);
void kw_products_wait(uint32_t prior);
// The last of the 128 threads to come calls `compute` with what each brought.
void kw_group_collect(kw_collected compute, void* mine, int line);
// Within `compute`, of one operand: the places of the 16-byte units that are read, a quarter of them by each warp, or
// all by all. 0: not to be read, or nothing is to be computed.
int kw_product_reads(const uint32_t* units, int count, int each_warp, int swizzle, void* code);
// Registers of products under way are used, those of a group (counted from 1); a product takes some that were written
// since the last fence.
void kw_product_touched(uint32_t group, int line);
void kw_product_unfenced(int line);

// An atomicCAS or atomicExch that changed nothing: a thread that only does that may be waiting for ever.
// kw_spin_over tells that the wait is over; it is needed only while the variable kw_spinning is set.
void kw_spin(const void* address, uint64_t observed, int line);
void kw_spin_over(void);

// A read, or an atomic operation that changed nothing, which may be one of a loop that waits.
void kw_poll(const void* address, uint64_t observed);

// Between these two the thread's atomic operations are of the block's scope.
void kw_block_scope(int on);

// A load that passes by the caches of one multiprocessor (__ldcg) comes next: it may be one of a loop that waits.
void kw_cached_read(const void* address, size_t bytes);

// A load by the read-only cache (ld.global.nc, __ldg) comes next.
void kw_read_only(const void* address, size_t bytes);

// A recursive function takes, or with a minus gives back, so many bytes of its thread's stack.
void kw_stack(int bytes, int line);

// cp.async: the calling thread's copies to shared memory, made at the latest when it waits for them. The last
// `zeros` of the bytes become zero and are not read. kw_wait_copies leaves out the last `prior` groups that
// were committed; kw_wait_all_copies waits for those too that were not.
void kw_copy_async(void* to, const void* from, size_t bytes, size_t zeros);
void kw_commit_copies(void);
void kw_wait_copies(unsigned prior);
void kw_wait_all_copies(void);

// mbarriers in shared memory, by their address. An arrival may expect bytes of copies; its result is the state for
// kw_mbarrier_state_over. Over: whether the phase is; the others of the block get a turn where it is not.
void kw_mbarrier_init(void* barrier, uint32_t count);
void kw_mbarrier_invalidate(void* barrier);
uint64_t kw_mbarrier_arrive(void* barrier, uint32_t count, int64_t bytes, int drops);
void kw_mbarrier_expect(void* barrier, int64_t bytes);
int kw_mbarrier_parity_over(void* barrier, uint32_t parity);
int kw_mbarrier_state_over(void* barrier, uint64_t state);

// cp.async.bulk: from global to shared memory, told to an mbarrier; from shared to global memory in groups. reduce:
// null for a copy.
typedef void (*kw_reduction)(char* to, const char* from, size_t bytes);
void kw_bulk_load(void* to, const void* from, uint32_t bytes, void* barrier);
void kw_bulk_store(void* to, const void* from, uint32_t bytes, kw_reduction reduce);
void kw_bulk_commit(void);
void kw_bulk_wait(uint32_t prior, int reads_only);
void kw_proxy_fence(void);

// cp.async.mbarrier.arrive: counted or not, when the copies of the thread are there.
void kw_copies_arrive(void* barrier, int counted);

// Clusters. Shared addresses of another block's are made by kw_map_shared (mapa), and found by kw_cluster_shared.
enum {
    KW_CLUSTER_RANK, KW_CLUSTER_SIZE, KW_CLUSTER_RANK_X, KW_CLUSTER_RANK_Y, KW_CLUSTER_RANK_Z, KW_CLUSTER_SIZE_X,
    KW_CLUSTER_SIZE_Y, KW_CLUSTER_SIZE_Z, KW_CLUSTER_X, KW_CLUSTER_Y, KW_CLUSTER_Z, KW_CLUSTERS_X, KW_CLUSTERS_Y,
    KW_CLUSTERS_Z
};
uint32_t kw_cluster(int what);
void kw_cluster_arrive(int relaxed, int line);
void kw_cluster_wait(int line);
uint32_t kw_map_shared(uint32_t address, uint32_t rank);
char* kw_map_generic(char* address, uint32_t rank);
uint32_t kw_rank_of(const char* address);
int kw_is_cluster_shared(uint64_t address);
char* kw_cluster_shared(uint32_t address);

// st.async: bytes that arrive in shared memory of the cluster and tell an mbarrier there.
void kw_store_async(void* to, const void* value, uint32_t bytes, void* barrier);
// cp.async.bulk from this block's shared memory to another's.
void kw_bulk_to_peer(void* to, const void* from, uint32_t bytes, void* barrier);
// A load that each block of the mask gets at the same places.
void kw_bulk_multicast(void* to, const void* from, uint32_t bytes, void* barrier, uint32_t ranks);
// cp.async.bulk.tensor: what a tensor map takes at these coordinates; ranks: the blocks that get it, 0 for none but
// that of `to`. offsets: of a load by im2col, those of the spatial dimensions.
typedef struct kw_tensor_place {
    int rank;
    const int32_t* at;
    const uint16_t* offsets;
    int im2col;
} kw_tensor_place;
void kw_tensor_load(void* to, const void* tensor_map, kw_tensor_place place, void* barrier, uint32_t ranks);
void kw_tensor_store(const void* tensor_map, kw_tensor_place place, void* from, const kw_reduction* by_type);

// Asked for its name, the kernel also says how its clusters are.
void kw_kernel_cluster(unsigned x, unsigned y, unsigned z);

// grid.sync(): every thread of a cooperative launch.
void kw_grid_sync(int line);

// Lets the other threads of the block run.
void kw_yield(void);

// Ends the launch with cudaErrorAssert; outside a kernel it is the C library's own.
[[noreturn]] void kw_assert_fail(const char* condition, const char* file, unsigned line, const char* function);
[[noreturn]] void kw_trap(int line);

long long kw_clock(void);

extern uint32_t kw_launch_serial;  // the current launch; compared with kw_shared_site::launch

}  // extern "C"
