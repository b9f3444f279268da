// Shared state of the runtime's parts: the threads, warps and fibers of the block that an OS thread runs.
#pragma once

#include "finding_kinds.h"
#include "kw/device_limits.h"
#include "kw/runtime.h"

#include <atomic>
#include <csetjmp>
#include <cstdarg>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#define KW_CODE reinterpret_cast<uintptr_t>(__builtin_return_address(0))  // return address: code of the caller
#define KW_TLS __thread __attribute__((tls_model("initial-exec")))

// Variables that device code reads as threadIdx, blockIdx, blockDim, gridDim, its lane and its shared memory.
extern "C" {
extern KW_TLS uint3 kw_thread_index;
extern KW_TLS uint3 kw_block_index;
extern KW_TLS uint3 kw_block_dim;
extern KW_TLS uint3 kw_grid_dim;
extern KW_TLS int kw_lane;
extern KW_TLS int kw_spinning;  // 1 if the OS thread has polled in vain for long
extern KW_TLS char* kw_shared_base;
}

namespace kw {

constexpr int kMaxWarps = kMaxThreads / kWarpSize;
constexpr int kMaxWorkers = 8;
constexpr size_t kSharedArena = 512 * 1024;  // bytes of shared memory of a block: the limit, and gaps between variables
constexpr size_t kStackBytes = 256 * 1024;
constexpr size_t kGuardBytes = 16 * 1024;

enum class State : uint8_t { kFresh, kReady, kAtBarrier, kAtWarpOp, kAtNamed, kAtProduct, kAtCluster, kDone };

struct Fiber {
    void* context;  // saved stack pointer or ucontext
    char* stack;    // lowest address of the stack, where its guard page lies
};

struct Thread {
    State state;
    Fiber* fiber;
    uint3 index;
    uint64_t value;   // operand of the barrier or warp operation that the thread waits at
    uint64_t result;  // result of that operation for this thread
    int kind;
    int argument;
    int width;
    int line;
    int site;
    int stack;  // bytes held by calls of recursive functions
    bool came_to_cluster;  // the thread has arrived at the cluster's barrier and not yet waited
    uint32_t cluster_phase;
};

// Group of lanes of a warp that wait for the same warp operation with the same mask.
struct Pending {
    int kind;
    uint32_t mask;
    int line;  // source line of the first lane to arrive
    uint32_t arrived;  // mask of the lanes that have arrived
};

struct Warp {
    uint32_t live;  // lanes that have not returned
    int runnable;   // lanes that are fresh, ready or running
    int pending_count;
    Pending pending[kWarpSize];
};

// Reason why a block is abandoned. In sampled launches kGivenUp ends the block without a finding, and kMisplaced ends
// the launch.
enum class Fault { kNone, kSignal, kAssert, kTrap, kSharedLimit, kDeadlock, kGivenUp, kMisplaced };

struct FaultRecord {
    Fault kind;
    int signal;
    int cause;
    uintptr_t address;
    uintptr_t code;  // address of the faulting instruction
    std::string text;
    int line;
};

// State of a polling thread, which reads the same value from the same address repeatedly, perhaps with other addresses
// in between.
struct Spin {
    const void* address;
    uint64_t observed;
    int thread;
    long count;
    int elsewhere;  // polls of other addresses since the last poll of `address`
    bool several;   // the thread has polled other addresses too
    long turns;  // times that the thread yielded to other threads of its block
};

// Limits of a block's shared memory, in bytes. Once the host has called cudaFuncSetAttribute for the kernel, `together`
// is the device's maximum, whatever value was passed. For 40 KB static and 20 KB dynamic memory the call is needed, and
// passing 20480 suffices (seen on an H100).
struct SharedLimits {
    size_t dynamic;
    size_t together;  // dynamic memory and __shared__ variables together
};

struct Launch {
    const kw_launch_request* request;
    bool checked;
    bool sampled;
    bool interleaved;  // threads yield before some of their stores
    std::vector<unsigned long> sample;  // numbers of the blocks that run, if the launch is sampled
    unsigned long blocks;
    SharedLimits shared;
    std::atomic<unsigned long> next_block;
    std::atomic<bool> stop;
    std::atomic<unsigned> arrived_blocks;  // arrivals at grid.sync(), summed over all rounds
    std::atomic<int> active_workers;
    std::atomic<int> resident_blocks;  // upper bound: each OS thread counts as one until it has no block left
    std::atomic<int> most_resident;
    std::atomic<int> spinning_workers;
    std::atomic<int> waiting_state;  // counter that changes whenever a worker begins or stops waiting
    std::atomic<int> confirmed_state;
    std::atomic<int> confirmations;
};

struct Watch;
struct Residency;
struct Copies;
struct Clocks;
struct Async;
struct Products;
struct Cluster;

// One of the block's 16 barriers that bar.sync and bar.arrive name by number.
struct NamedBarrier {
    int arrived;
    int expected;  // 0: every thread of the block that has not returned
    int line;      // source line of the first thread to arrive
    Clocks* clocks;  // clocks known to the threads that arrived; used in checked launches only
};
constexpr int kNamedBarriers = 16;

// State of one OS thread in a launch, with the block that it runs. Each further block that the OS thread runs at the
// same time (waiting.cpp) has a Worker too; `host` of that Worker is the OS thread's first Worker.
struct Worker {
    int id;
    Launch* launch;
    Worker* host;
    Residency* residency;      // host only: other blocks on the OS thread; null if there are none
    std::vector<std::unique_ptr<Cluster>> clusters;  // host only: clusters with running blocks
    Cluster* cluster;          // cluster of the block, or null
    unsigned cluster_rank;     // rank of the block in its cluster
    bool used_by_peers;        // other blocks of the cluster have accessed this block's shared memory
    void* suspended;           // saved context while another block of the OS thread runs
    unsigned long first_block;  // host only: the blocks from first_block to end_block were taken and not begun
    unsigned long end_block;
    Watch* watch;
    char* stacks;
    bool guards;  // true if the stacks have guard pages
    int count;  // number of threads in the block
    Thread threads[kMaxThreads];
    Warp warps[kMaxWarps];
    int warp_count;
    int ready[kMaxThreads];  // ring of threads that can continue
    int ready_head;
    int ready_count;
    int next_fresh;
    int finished;
    int at_barrier;
    NamedBarrier named[kNamedBarriers];
    bool any_named;  // the block has used a numbered barrier
    int current;
    Fiber* current_fiber;
    void* scheduler_context;
    Fiber fibers[kMaxThreads];
    int fibers_made;
    Fiber* idle_fibers[kMaxThreads];
    int idle_count;
    char* shared;
    size_t shared_dirty;  // bytes from the start that may not hold shared_word
    uint32_t shared_word;
    int order[kMaxThreads];  // order[k]: thread that starts as the k-th
    int ordered_count, ordered_by;  // thread count and kind of order for which `order` was computed
    uint64_t ordered_seed;
    uint32_t chance;  // state of the random choice to yield
    Copies* copies;  // null until a thread makes the first copy
    size_t pending_copies;  // number of asynchronous copies and reads with which an access could conflict
    Async* async;           // mbarriers and bulk copies; null until first used
    Products* products;     // matrix products of warpgroups; null until first used
    Spin spin;
    uint3 indexed_block;  // block shape for which threads[].index was computed
    uintptr_t access_code;  // device code on whose behalf the runtime last made an access
    FaultRecord fault;
    sigjmp_buf recovery;
};

extern KW_TLS Worker* current_worker;  // null outside kernels

// fibers.cpp
void make_fiber(Worker& worker, Fiber& fiber, int number, void (*entry)());
void switch_context(void** save, void* to);
void* new_fiber_context(Fiber& fiber, int number, void (*entry)());
bool in_guard(const Worker& worker, uintptr_t address);

// block.cpp
void run_block(Worker& worker);
void park(Worker& worker);
void make_ready(Worker& worker, int thread);

// warp.cpp
void settle_warp(Worker& worker, int warp);
bool force_stuck_warp(Worker& worker);

// named_barrier.cpp
void forget_named_barriers(Worker& worker);
void release_named_barriers(Worker& worker);
void settle_named_barriers(Worker& worker);
struct Stuck {
    std::string text;
    int line;
};
Stuck stuck_at(const Worker& worker);

// shared.cpp
void prepare_shared(Worker& worker);
void begin_shared_layout(size_t dynamic_bytes);
void note_shared_use(Worker& worker);

void release_shared(Worker& worker);

// async_copy.cpp
void forget_copies(Worker& worker);
void release_copies(Worker& worker);

// mbarrier.cpp, bulk_copy.cpp
void forget_async(Worker& worker);
void release_async(Worker& worker);
void end_bulk(Worker& worker);

// warpgroup.cpp
void forget_products(Worker& worker);
void release_products(Worker& worker);
void end_products(Worker& worker);
std::string stuck_at_products(const Worker& worker, int& line);

// waiting.cpp
void finish_residents(Worker& host);
void release_residents(Worker& host);

// launch.cpp
void join_launch(Worker& worker, Launch& launch, int id);
void run_blocks(Worker& worker);
[[noreturn]] void abandon(Worker& worker, Fault fault, std::string text, int line);
const Launch* current_launch();
std::string launch_text(const kw_launch_request& request);

// Publishes the running kernel for observers outside the process; nullptr: none.
void note_running(const kw_launch_request* request);

// kernels.cpp
void note_kernel(const kw_launch_request& request);
void add_declared_cluster(kw_launch_request& request);
void forget_kernels();

// sampling.cpp
bool sampling();
bool host_only();  // true if launches are noted and no block runs
std::vector<unsigned long> sampled_blocks(const kw_launch_request& request);
constexpr char kWaiting[] = "waits for other blocks";
void give_up(Worker& worker, const char* why);
bool goes_on_after_fault(Worker& host);
void end_sampled_launch();
void* reserve_piece(size_t bytes);
bool release_piece(void* pointer);

// access.cpp: bits of the steps that precede each store of the running launch
constexpr int kLetsOthersGo = 1, kNotesWriters = 2;
extern int before_stores;

// draw.cpp
uint32_t fresh_word();
bool keeps_contents();
void fill_fresh(void* first, size_t bytes);
bool is_fresh(const char* at, size_t bytes);
unsigned long block_in_turn(unsigned long turn, unsigned long blocks);
void order_threads(Worker& worker);
bool interleaves();
uint32_t chance_of(int worker);
void yield_before_store(uintptr_t address);

// writers.cpp
bool notes_writers();
void begin_noted_launch();

// lock.cpp: true if the caller may use the switch of this name; otherwise reports a finding.
bool permitted(const char* name);
void report_tampering(const char* name);

// faults.cpp
class FaultHandlers {
  public:
    FaultHandlers();
    ~FaultHandlers();
};
void use_alternate_stack(bool on);
bool copy_guarded(void* to, const void* from, size_t bytes);
bool fill_guarded(void* to, int byte, size_t bytes);
void report_fault(Worker& worker);

// memory.cpp
enum class Extent { kOutside, kInside, kBeyond };
Extent arena_extent(const void* pointer, size_t bytes);
bool in_arena(uintptr_t address);
bool is_torchs_own(uintptr_t address);
uintptr_t arena_owner(uintptr_t address);

// record.cpp
bool recording();
void record_allocation(void* pointer, size_t bytes);
void record_free(void* pointer);

// Records one operation on device memory: constructed before the operation, destroyed after it.
class Recorded {
  public:
    explicit Recorded(const kw_launch_request& request);
    Recorded(void* to, const void* from, size_t bytes);
    Recorded(void* to, int byte, size_t bytes);
    ~Recorded();
};

// streams.cpp
enum class Side { kHost, kDevice, kEither };
struct Place;
void note_work(cudaStream_t stream, const Place& place);
void note_copy(void* to, size_t bytes, cudaStream_t stream, const Place& place);
void add_visible(const void* first, size_t bytes);
void remove_visible(const void* first);
Side side_of(const void* pointer);
void host_access(const volatile void* pointer, size_t bytes, bool writes, uintptr_t code);

// cuda_device.cpp
void check_stream(const kw_launch_request& request);

// findings.cpp
size_t copy_text(const std::string& text, char* buffer, size_t capacity);
std::string quoted(const std::string& text);
std::string filled(const char* pattern, std::initializer_list<std::string> values);  // replaces each %s in turn
enum class Severity { kError, kWarning };

// Place of an event: a known source line, or the code address and, for a race, the code address of the other access.
// The builder's debug information translates addresses to lines.
struct Place {
    int line;
    uintptr_t code;
    uintptr_t other;
};
inline Place at_line(int line) { return Place{line, 0, 0}; }
inline Place at_code(uintptr_t code, uintptr_t other = 0) { return Place{0, code, other}; }

// cuda_errors.cpp: set_error sets the last error, for the failed operation `what`, until the host queries it.
void set_error(cudaError_t error, std::string what, const Place& place);
void set_sticky_error(cudaError_t error);
void forget_errors();
cudaError_t sticky_error();
SharedLimits shared_limits_of(const char* name, bool by_pointer);
bool may_have_large_clusters(const char* name, bool by_pointer);
std::string base_name(const std::string& text);

// Call of CUDA's API, and the address of the host code that made it.
struct HostCall {
    const char* name;
    uintptr_t code;
};

// Sets the last error of CUDA after a failed call, and returns it.
cudaError_t failed(const HostCall& call, cudaError_t error);

// waiting.cpp: called when a thread reads `observed` at the address. `soft`: the read may be no part of a wait.
void poll(const void* address, uint64_t observed, const Place& place, bool soft);

bool is_new_finding(Kind kind, const Place& place);
void add_finding(Kind kind, Severity severity, const Place& place, const Worker* where, std::string message);
__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...);

// Adds a finding or counts it. The message is built only for the first finding of a kind and place, because a faulty
// kernel can report millions.
template <class Message>
void report(Kind kind, Severity severity, const Place& place, const Worker* where, Message message) {
    if (is_new_finding(kind, place)) add_finding(kind, severity, place, where, message());
}

template <class Message>
void report(Kind kind, Severity severity, int line, const Worker* where, Message message) {
    report(kind, severity, at_line(line), where, message);
}

}  // namespace kw
