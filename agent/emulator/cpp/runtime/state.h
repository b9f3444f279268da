// What the parts of the runtime share: the threads, warps and fibers of the block that an OS thread runs.
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

#define KW_CODE reinterpret_cast<uintptr_t>(__builtin_return_address(0))  // of the caller
#define KW_TLS __thread __attribute__((tls_model("initial-exec")))

// Device code reads these as threadIdx, blockIdx, blockDim, gridDim, its lane and its shared memory.
extern "C" {
extern KW_TLS uint3 kw_thread_index;
extern KW_TLS uint3 kw_block_index;
extern KW_TLS uint3 kw_block_dim;
extern KW_TLS uint3 kw_grid_dim;
extern KW_TLS int kw_lane;
extern KW_TLS int kw_spinning;  // the OS thread has been polling for long
extern KW_TLS char* kw_shared_base;
}

namespace kw {

constexpr int kMaxWarps = kMaxThreads / kWarpSize;
constexpr int kMaxWorkers = 8;
constexpr size_t kSharedArena = 512 * 1024;  // the limit plus room between the variables
constexpr size_t kStackBytes = 256 * 1024;
constexpr size_t kGuardBytes = 16 * 1024;

enum class State : uint8_t { kFresh, kReady, kAtBarrier, kAtWarpOp, kAtNamed, kAtProduct, kAtCluster, kDone };

struct Fiber {
    void* context;  // where it goes on
    char* stack;    // its lowest address, which is the guard
};

struct Thread {
    State state;
    Fiber* fiber;
    uint3 index;
    uint64_t value;   // what it brought to the barrier or warp operation
    uint64_t result;  // what it takes away
    int kind;
    int argument;
    int width;
    int line;
    int site;
    int stack;  // bytes that calls of recursive functions hold
    bool came_to_cluster;  // and has not waited for it yet
    uint32_t cluster_phase;
};

// Lanes that wait for the same operation with the same mask.
struct Pending {
    int kind;
    uint32_t mask;
    int line;  // of the lane that came first
    uint32_t arrived;
};

struct Warp {
    uint32_t live;  // lanes that have not returned
    int runnable;   // lanes that are fresh, ready or running
    int pending_count;
    Pending pending[kWarpSize];
};

// kGivenUp, kMisplaced: of a sampled launch; the block ends quietly, or the launch.
enum class Fault { kNone, kSignal, kAssert, kTrap, kSharedLimit, kDeadlock, kGivenUp, kMisplaced };

struct FaultRecord {
    Fault kind;
    int signal;
    int cause;
    uintptr_t address;
    uintptr_t code;  // the instruction
    std::string text;
    int line;
};

// A thread that polls memory: the same answer from the same place, again and again. It may ask others in between.
struct Spin {
    const void* address;
    uint64_t observed;
    int thread;
    long count;
    int elsewhere;  // polls of other places since the last one of this
    bool several;   // other places were asked too
    long turns;  // that it left to other threads of its block
};

// Shared memory that a block of a kernel may have. Whether the host has called cudaFuncSetAttribute for it counts, not
// what it asked for: 40 KB static and 20 KB dynamic need the call, with 20480 (seen on an H100).
struct SharedLimits {
    size_t dynamic;
    size_t together;  // with the __shared__ variables
};

struct Launch {
    const kw_launch_request* request;
    bool checked;
    bool sampled;
    bool interleaved;  // threads let others go first before some of their stores
    std::vector<unsigned long> sample;  // the blocks that run, where sampled
    unsigned long blocks;
    SharedLimits shared;
    std::atomic<unsigned long> next_block;
    std::atomic<bool> stop;
    std::atomic<unsigned> arrived_blocks;  // at grid.sync(), all rounds together
    std::atomic<int> active_workers;
    std::atomic<int> resident_blocks;  // at most: an OS thread's own one counts until none is left for it
    std::atomic<int> most_resident;
    std::atomic<int> spinning_workers;
    std::atomic<int> waiting_state;  // changes whenever a worker begins or ceases to wait
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

// A barrier of the block's 16 that bar.sync and bar.arrive name by number.
struct NamedBarrier {
    int arrived;
    int expected;  // 0: every thread of the block that has not returned
    int line;      // of the thread that came first
    Clocks* clocks;  // what is known of those that came, under checks
};
constexpr int kNamedBarriers = 16;

// One OS thread's share of a launch, with the block it is running. Blocks that it runs beside that one
// (waiting.cpp) have a worker each, whose host is the OS thread's own.
struct Worker {
    int id;
    Launch* launch;
    Worker* host;
    Residency* residency;      // the host's: null without other blocks
    std::vector<std::unique_ptr<Cluster>> clusters;  // the host's: that have blocks which run
    Cluster* cluster;          // of the block, or null
    unsigned cluster_rank;
    bool used_by_peers;  // other blocks have accessed its shared memory
    void* suspended;           // where it goes on while another block of the OS thread runs
    unsigned long first_block;  // the host's: blocks that it took and has not begun
    unsigned long end_block;
    Watch* watch;
    char* stacks;
    bool guards;  // its stacks have them
    int count;  // threads in the block
    Thread threads[kMaxThreads];
    Warp warps[kMaxWarps];
    int warp_count;
    int ready[kMaxThreads];  // ring of threads that may go on
    int ready_head;
    int ready_count;
    int next_fresh;
    int finished;
    int at_barrier;
    NamedBarrier named[kNamedBarriers];
    bool any_named;  // of the block has been used
    int current;
    Fiber* current_fiber;
    void* scheduler_context;
    Fiber fibers[kMaxThreads];
    int fibers_made;
    Fiber* idle_fibers[kMaxThreads];
    int idle_count;
    char* shared;
    size_t shared_dirty;  // bytes from the start that do not hold shared_word
    uint32_t shared_word;
    int order[kMaxThreads];  // which thread has its turn as the k-th, and what that was made for
    int ordered_count, ordered_by;
    uint64_t ordered_seed;
    uint32_t chance;  // of letting others go first
    Copies* copies;  // null until a thread makes the first
    size_t pending_copies;  // of both kinds, that somebody could disturb
    Async* async;           // mbarriers and bulk copies; null until a thread uses the first
    Products* products;     // of warpgroups; null until a thread uses the first
    Spin spin;
    uint3 indexed_block;  // the block shape that threads[].index was computed for
    uintptr_t access_code;  // where the last access came from that the runtime makes for device code
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

// Tells who looks from outside which kernel runs; nullptr: none.
void note_running(const kw_launch_request* request);

// kernels.cpp
void note_kernel(const kw_launch_request& request);
void add_declared_cluster(kw_launch_request& request);
void forget_kernels();

// sampling.cpp
bool sampling();
bool host_only();  // launches are noted, and no block runs
std::vector<unsigned long> sampled_blocks(const kw_launch_request& request);
constexpr char kWaiting[] = "waits for other blocks";
void give_up(Worker& worker, const char* why);
bool goes_on_after_fault(Worker& host);
void end_sampled_launch();
void* reserve_piece(size_t bytes);
bool release_piece(void* pointer);

// access.cpp: what is done before each store of the launch that runs, one bit each
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

// lock.cpp: whether the caller may throw the switch of this name; a finding where it may not.
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

// One thing done to device memory: stands in the record before it is done, and ends once it is.
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
std::string filled(const char* pattern, std::initializer_list<std::string> values);  // each %s by the next value
enum class Severity { kError, kWarning };

// Where something happened: a line that is known, or the code that did it (and the code of the other side
// of a race), whose line the builder's debug information tells.
struct Place {
    int line;
    uintptr_t code;
    uintptr_t other;
};
inline Place at_line(int line) { return Place{line, 0, 0}; }
inline Place at_code(uintptr_t code, uintptr_t other = 0) { return Place{0, code, other}; }

// cuda_errors.cpp: `what` failed with the error, and the host has not asked for it yet.
void set_error(cudaError_t error, std::string what, const Place& place);
void set_sticky_error(cudaError_t error);
void forget_errors();
cudaError_t sticky_error();
SharedLimits shared_limits_of(const char* name, bool by_pointer);
bool may_have_large_clusters(const char* name, bool by_pointer);
std::string base_name(const std::string& text);

// A call of CUDA's API and where the host made it; an error of it is left behind and returned.
struct HostCall {
    const char* name;
    uintptr_t code;
};
cudaError_t failed(const HostCall& call, cudaError_t error);

// waiting.cpp: a thread saw `observed` at the address. soft: which may be no waiting at all.
void poll(const void* address, uint64_t observed, const Place& place, bool soft);

bool is_new_finding(Kind kind, const Place& place);
void add_finding(Kind kind, Severity severity, const Place& place, const Worker* where, std::string message);
__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...);

// The message is only put together for the first of a kind: a faulty kernel can report millions.
template <class Message>
void report(Kind kind, Severity severity, const Place& place, const Worker* where, Message message) {
    if (is_new_finding(kind, place)) add_finding(kind, severity, place, where, message());
}

template <class Message>
void report(Kind kind, Severity severity, int line, const Worker* where, Message message) {
    report(kind, severity, at_line(line), where, message);
}

}  // namespace kw
