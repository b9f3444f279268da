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

// An atomicCAS or atomicExch that changed nothing: a thread that only does that may be waiting for ever.
// kw_spin_over tells that the wait is over; it is needed only while the variable kw_spinning is set.
void kw_spin(const void* address, uint64_t observed, int line);
void kw_spin_over(void);

// A read, or an atomic operation that changed nothing, which may be one of a loop that waits.
void kw_poll(const void* address, uint64_t observed);

// A recursive function takes, or with a minus gives back, so many bytes of its thread's stack.
void kw_stack(int bytes, int line);

// cp.async: the calling thread's copies to shared memory, made at the latest when it waits for them. The last
// `zeros` of the bytes become zero and are not read. kw_wait_copies leaves out the last `prior` groups that
// were committed; kw_wait_all_copies waits for those too that were not.
void kw_copy_async(void* to, const void* from, size_t bytes, size_t zeros);
void kw_commit_copies(void);
void kw_wait_copies(unsigned prior);
void kw_wait_all_copies(void);

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
