// Functions of libkw_runtime that device code calls; Python never calls them.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Calls the kernel of this OS thread's next launch for its name only. While kw_asking_name is set, a kernel must pass
// its signature to kw_kernel_is and return.
void kw_name_kernel(void (*entry)(void*), void* arguments);
void kw_kernel_is(const char* signature);

// A __shared__ variable of one function or template instance.
typedef struct kw_shared_site {
    size_t bytes;
    const char* name;
    int line;         // source line of the declaration
    uint32_t launch;  // serial number of the launch for which `offset` is valid
    uint32_t offset;  // offset in the block's shared memory
} kw_shared_site;

// Assigns the variable its offset in the shared memory of the current launch.
void kw_place_shared(kw_shared_site* site);

enum { KW_BARRIER_PLAIN, KW_BARRIER_COUNT, KW_BARRIER_AND, KW_BARRIER_OR };

// Waits at a barrier of the block. `site` distinguishes two barriers on one line. Returns the reduction over the
// predicates.
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

// Takes part in a warp operation of the lanes in `mask`, and returns its result. For shuffles, `argument` is the source
// lane or distance, and `width` the segment width.
uint64_t kw_warp_op(int kind, uint32_t mask, uint64_t value, int argument, int width, int line);

// bar.sync and bar.arrive on barrier `number` (0 to 15) of the block, for `threads` threads (0: all threads of the
// block). kw_named_sync returns the reduction over the predicates.
int kw_named_sync(int number, int threads, int kind, int predicate, int line);
void kw_named_arrive(int number, int threads, int line);

// Operation of a whole warp, such as mma.sync: the last lane to arrive calls `compute` with the pointers `mine` of all
// lanes. A lane that has returned is represented by a scratch buffer.
typedef void (*kw_collected)(void* const* lanes);
enum { KW_COLLECTED_BYTES = 1024 };  // maximum size of the memory at `mine`, in bytes
void kw_warp_collect(kw_collected compute, void* mine, int line);

// Reports, within `compute`, an access on behalf of lane `lane`.
void kw_lane_access(int lane, const void* address, size_t bytes, int writes, void* code);

// A thread's counters of wgmma products: product groups committed, groups known to be done, fences executed, and groups
// committed at the thread's last wait.
typedef struct kw_products {
    uint32_t committed, done, fences, waited;
} kw_products;
kw_products kw_products_now(void);
void kw_products_fence(void);
void kw_products_commit(void);
void kw_products_wait(uint32_t prior);
// Operation of a warpgroup: the last of its 128 threads to arrive calls `compute` with the pointers `mine` of all
// threads.
void kw_group_collect(kw_collected compute, void* mine, int line);
// Reports, within `compute`, the 16-byte units that are read of one operand, as offsets in shared memory. If each_warp
// is set, each warp reads a quarter of the units; otherwise all warps read all. Returns 0 if the product need not be
// computed.
int kw_product_reads(const uint32_t* units, int count, int each_warp, int swizzle, void* code);
// Report the use of a register of product group `group` (counted from 1) before the wait for that group, and a product
// with registers that were written since the last fence.
void kw_product_touched(uint32_t group, int line);
void kw_product_unfenced(int line);

// Reports an atomicCAS or atomicExch that changed nothing. A thread that makes only such operations may wait for ever.
// kw_spin_over reports that a wait has ended; device code calls it only while kw_spinning is set.
void kw_spin(const void* address, uint64_t observed, int line);
void kw_spin_over(void);

// Reports a read, or an atomic operation that changed nothing, which may be part of a waiting loop.
void kw_poll(const void* address, uint64_t observed);

// Turns block scope for the thread's atomic operations on or off.
void kw_block_scope(int on);

// Announces a load that bypasses L1 (__ldcg), which may be part of a waiting loop.
void kw_cached_read(const void* address, size_t bytes);

// Announces a load through the read-only cache (ld.global.nc, __ldg).
void kw_read_only(const void* address, size_t bytes);

// Adds `bytes` to the stack that the thread's recursive calls hold; the number is negative when a call returns.
void kw_stack(int bytes, int line);

// cp.async. A copy is made when its thread waits for it, the latest moment that CUDA allows. The last `zeros` bytes
// are zero-filled and not read. kw_wait_copies waits for all but the last `prior` committed groups; kw_wait_all_copies
// also waits for copies that were not committed.
void kw_copy_async(void* to, const void* from, size_t bytes, size_t zeros);
void kw_commit_copies(void);
void kw_wait_copies(unsigned prior);
void kw_wait_all_copies(void);

// mbarriers in shared memory, by address. An arrival may add expected bytes; it returns the state token for
// kw_mbarrier_state_over. The *_over functions return 1 if the phase is over. If it is not, they let other threads run
// before they look again and return.
void kw_mbarrier_init(void* barrier, uint32_t count);
void kw_mbarrier_invalidate(void* barrier);
uint64_t kw_mbarrier_arrive(void* barrier, uint32_t count, int64_t bytes, int drops);
void kw_mbarrier_expect(void* barrier, int64_t bytes);
int kw_mbarrier_parity_over(void* barrier, uint32_t parity);
int kw_mbarrier_state_over(void* barrier, uint64_t state);

// cp.async.bulk. Loads from global to shared memory complete on an mbarrier, stores to global memory in bulk groups.
// `reduce` is null for a plain copy.
typedef void (*kw_reduction)(char* to, const char* from, size_t bytes);
void kw_bulk_load(void* to, const void* from, uint32_t bytes, void* barrier);
void kw_bulk_store(void* to, const void* from, uint32_t bytes, kw_reduction reduce);
void kw_bulk_commit(void);
void kw_bulk_wait(uint32_t prior, int reads_only);
void kw_proxy_fence(void);

// cp.async.mbarrier.arrive: finishes the thread's copies. Arrives at the mbarrier only if counted (.noinc).
void kw_copies_arrive(void* barrier, int counted);

// Clusters. kw_map_shared (mapa) returns a shared::cluster address in another block's shared memory; kw_cluster_shared
// returns the memory at such an address.
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

// st.async: a store to shared memory of a block of the cluster, which completes on an mbarrier of that block.
void kw_store_async(void* to, const void* value, uint32_t bytes, void* barrier);
// cp.async.bulk from this block's shared memory to another block's shared memory.
void kw_bulk_to_peer(void* to, const void* from, uint32_t bytes, void* barrier);
// Multicast load: every block in the mask `ranks` receives the data at the same offset of its shared memory.
void kw_bulk_multicast(void* to, const void* from, uint32_t bytes, void* barrier, uint32_t ranks);
// cp.async.bulk.tensor: copies the box of a tensor map at the coordinates `at`. `ranks` is the mask of the receiving
// blocks, 0 for the block of `to` alone. `offsets` are the im2col offsets of the spatial dimensions.
typedef struct kw_tensor_place {
    int rank;
    const int32_t* at;
    const uint16_t* offsets;
    int im2col;
} kw_tensor_place;
void kw_tensor_load(void* to, const void* tensor_map, kw_tensor_place place, void* barrier, uint32_t ranks);
void kw_tensor_store(const void* tensor_map, kw_tensor_place place, void* from, const kw_reduction* by_type);

// Called by a kernel that is asked for its name, with the cluster dimensions in its declaration, if any.
void kw_kernel_cluster(unsigned x, unsigned y, unsigned z);

// grid.sync(), called by every thread of a cooperative launch.
void kw_grid_sync(int line);

// Yields to the other threads of the block.
void kw_yield(void);

// Ends the launch with cudaErrorAssert; outside a kernel it calls the C library's __assert_fail.
[[noreturn]] void kw_assert_fail(const char* condition, const char* file, unsigned line, const char* function);
[[noreturn]] void kw_trap(int line);

long long kw_clock(void);

extern uint32_t kw_launch_serial;  // number of the current launch; see kw_shared_site::launch

}  // extern "C"
