// Threads that poll memory until another thread writes it, and the blocks that run meanwhile.
//
// A thread that keeps reading the same value, whatever it polls in between, yields to the threads of its block. When
// all threads of the block poll or wait, the OS thread lets another block continue, and starts a new block if none can
// continue. So blocks are co-resident as on a GPU, and a barrier among the blocks of one launch works. Each further
// block on an OS thread has its own stacks and shared memory, which are released after the launch.
#include "cluster.h"

#include <memory>
#include <sched.h>
#include <sys/mman.h>
#include <vector>

extern "C" {
KW_TLS int kw_spinning;
}

namespace kw {

namespace {

constexpr long kPatience = 1024;      // polls of a thread before other threads get a turn
constexpr long kLittlePatience = 16;  // polls of a thread before others get a turn, if blocks share the OS thread
// Polls of an OS thread without any change before it counts as waiting for ever. kFruitlessPolls applies to atomicCAS
// and atomicExch without effect, which can only be a wait. kFruitlessReads applies to volatile reads, which may be part
// of a long loop.
constexpr long kFruitlessPolls = 1 << 20;
constexpr long kFruitlessReads = 1 << 24;
constexpr int kPolledTogether = 64;  // maximum number of other addresses that a loop polls in turn
constexpr long kTurnsBeforeAnother = 4;  // turns of each resident block before one more block is started
// Maximum number of threads resident at once in a launch, as on the device. Each takes about 2 pages of stack.
constexpr size_t kResidentThreads = size_t{kMultiprocessors} * kThreadsPerMultiprocessor;
// Number of threads of a launch whose stacks get guard pages. Each takes two of the 65530 mappings of a process.
constexpr size_t kGuardedThreads = 16 * 1024;

}  // namespace

// A block that runs beside the first block of its OS thread.
struct Resident {
    Worker worker;
    size_t stack_bytes;
    bool finished;
};

struct Residency {
    std::vector<std::unique_ptr<Resident>> others;
    size_t turn = 0;  // 0: the OS thread's own block, else others[turn - 1]
    size_t unfinished = 0;     // number of blocks in `others` that have not ended
    long fruitless = 0;        // turns without any change
    long fruitless_polls = 0;
    bool host_done = false;
    int confirmed = 0;  // value of waiting_state for which this OS thread has polled all its addresses again
};

namespace {

Residency& residency_of(Worker& worker) {
    Worker& host = *worker.host;
    if (host.residency == nullptr) host.residency = new Residency;
    return *host.residency;
}

void note_progress(Worker& worker) {
    if (worker.host->residency == nullptr) return;
    worker.host->residency->fruitless = 0;
    worker.host->residency->fruitless_polls = 0;
}

Worker& at_turn(Worker& host, size_t turn) {
    return turn == 0 ? host : host.residency->others[turn - 1]->worker;
}

// Returns the next unfinished block in turn; the host takes turns only while it has blocks of its own.
Worker* next_in_turn(Worker& host) {
    Residency& r = *host.residency;
    for (size_t step = 1; step <= r.others.size() + 1; step++) {
        const size_t turn = (r.turn + step) % (r.others.size() + 1);
        const bool open = turn == 0 ? !r.host_done : !r.others[turn - 1]->finished;
        if (!open) continue;
        r.turn = turn;
        return &at_turn(host, turn);
    }
    r.turn = 0;
    return &host;
}

// Switches blocks and restores the thread-local variables that describe the block to its threads.
void go_on_with(Worker& from, Worker& to) {
    if (&from == &to) return;
    const uint3 block = kw_block_index;
    Watch* const watch = watching;
    current_worker = &to;
    switch_context(&from.suspended, to.suspended);
    current_worker = &from;
    watching = watch;
    kw_block_index = block;
    kw_shared_base = from.shared;
    kw_thread_index = from.threads[from.current].index;
    kw_lane = from.current % kWarpSize;
}

void resident_main() {
    Worker& worker = *current_worker;
    watching = nullptr;
    if (worker.launch->checked) begin_watch(worker);
    run_blocks(worker);
    end_watch();
    Worker& host = *worker.host;
    Residency& r = *host.residency;
    r.others[r.turn - 1]->finished = true;
    r.unfinished--;
    host.launch->resident_blocks--;
    r.fruitless = r.fruitless_polls = 0;
    current_worker = next_in_turn(host);
    void* discarded;
    switch_context(&discarded, current_worker->suspended);
    __builtin_unreachable();
}

bool blocks_left(const Worker& host) {
    return host.first_block < host.end_block || host.launch->next_block < host.launch->blocks;
}

// Counts one more resident block if the device has room for its threads. Returns false if it has no room.
bool has_room(Launch& launch, size_t threads) {
    const int blocks = ++launch.resident_blocks;
    const bool room = static_cast<size_t>(blocks) * threads <= kResidentThreads;
    if (!room) launch.resident_blocks--;
    for (int most = launch.most_resident; room && most < blocks;) {
        if (launch.most_resident.compare_exchange_weak(most, blocks)) break;
    }
    return room;
}

// Starts one more block on the OS thread. Returns null if no block or no room is left.
Worker* start_resident(Worker& host) {
    Residency& r = *host.residency;
    const size_t threads = static_cast<size_t>(host.count);
    if (!blocks_left(host) || !has_room(*host.launch, threads)) return nullptr;
    const size_t bytes = (threads + 1) * kStackBytes;
    void* stacks = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) return host.launch->resident_blocks--, nullptr;
    auto made = std::make_unique<Resident>();
    made->stack_bytes = bytes;
    Worker& worker = made->worker;
    worker.host = &host;
    worker.stacks = static_cast<char*>(stacks);
    worker.guards = static_cast<size_t>(host.launch->resident_blocks) * threads <= kGuardedThreads;
    join_launch(worker, *host.launch, host.id);
    Fiber scheduler{nullptr, worker.stacks + threads * kStackBytes};
    worker.suspended = new_fiber_context(scheduler, host.count, resident_main);
    r.others.push_back(std::move(made));
    r.turn = r.others.size();
    r.unfinished++;
    r.fruitless = r.fruitless_polls = 0;
    return &worker;
}

// Lets another block of the OS thread continue, or starts a new block once all have polled in vain.
void give_way(Worker& worker) {
    Worker& host = *worker.host;
    Residency& r = residency_of(worker);
    r.fruitless++;
    Worker* next = nullptr;
    // The barrier of a cooperative launch opens when all blocks are resident, so there is no point in waiting a turn.
    const long turns = host.launch->request->cooperative != 0 ? 0 : kTurnsBeforeAnother;
    if (r.fruitless > turns * static_cast<long>(r.unfinished + 1)) next = start_resident(host);
    if (next == nullptr) next = next_in_turn(host);
    if (next == &worker) sched_yield();
    go_on_with(worker, *next);
}

}  // namespace

void let_other_blocks_go(Worker& worker) {
    Worker* next = next_in_turn(*worker.host);
    if (next == &worker) sched_yield();
    go_on_with(worker, *next);
}

// Starts the other blocks of the first cluster beside the host's own block, because a cluster must be resident
// together.
void start_peers(Worker& host) {
    const unsigned size = cluster_size(*host.launch->request);
    Residency& r = residency_of(host);
    for (unsigned k = 1; k < size; k++) {
        if (start_resident(host) == nullptr) break;
    }
    r.turn = 0;
}

namespace {

// Returns true if all OS threads of the launch wait in vain, so that nothing can change any more. Each must have polled
// in vain again after the last of them began to wait, because it may have slept while its value was written.
bool nobody_goes_on(Worker& worker) {
    Launch& launch = *worker.launch;
    Residency& r = *worker.host->residency;
    if (!kw_spinning) {
        launch.spinning_workers++;
        launch.waiting_state++;
        kw_spinning = 1;
    }
    if (launch.spinning_workers < launch.active_workers) return false;
    const int state = launch.waiting_state;
    if (launch.confirmed_state.exchange(state) != state) launch.confirmations = 0;
    if (r.confirmed != state) {
        r.confirmed = state;
        r.fruitless_polls /= 2;  // allows the OS thread half of the polls once more
        return false;
    }
    return ++launch.confirmations >= launch.active_workers;
}

// Returns true if this thread read the same value again from the address that identifies its wait.
bool same_again(Worker& worker, const void* address, uint64_t observed) {
    Spin& spin = worker.spin;
    const bool mine = spin.thread == worker.current && spin.address != nullptr;
    if (mine && spin.address != address && spin.elsewhere < kPolledTogether) {
        spin.elsewhere++;
        return false;
    }
    if (mine && spin.address == address && spin.observed == observed) {
        spin.several = spin.several || spin.elsewhere > 0;
        spin.elsewhere = 0;
        return true;
    }
    if (spin.address == address && spin.observed != observed) {
        note_progress(worker);
        spin.turns = 0;
    }
    kw_spin_over();
    spin = Spin{address, observed, worker.current, 1, 0, false, spin.turns};
    return false;
}

}  // namespace

void poll(const void* address, uint64_t observed, const Place& place, bool soft) {
    Worker& worker = *current_worker;
    Spin& spin = worker.spin;
    if (!same_again(worker, address, observed)) return;
    const Residency* r = worker.host->residency;
    const long patience = r == nullptr || r->unfinished == 0 ? kPatience : kLittlePatience;
    if (++spin.count % patience != 0) return;
    if (worker.launch->stop) abandon(worker, Fault::kNone, "", 0);
    const bool others = worker.ready_count > 0 || worker.next_fresh < worker.count;
    if (others && spin.turns < 2 * worker.count) {
        spin.turns++;
        spin.count = 0;
        kw_yield();
        return;
    }
    give_up(worker, kWaiting);
    spin.turns = 0;
    residency_of(worker).fruitless_polls += patience;
    give_way(worker);
    if (worker.host->residency->fruitless_polls < (soft || spin.several ? kFruitlessReads : kFruitlessPolls)) return;
    if (!nobody_goes_on(worker)) return;
    worker.fault.code = place.code;
    abandon(worker, Fault::kDeadlock,
            format("The thread waits for ever for a value (it sees 0x%llx each time) that no thread is left to "
                   "write: all others wait too or have returned.",
                   static_cast<unsigned long long>(observed)),
            place.line);
}

// Called when the host has no block left. Runs the other blocks of the OS thread until they have ended too.
void finish_residents(Worker& host) {
    Residency* r = host.residency;
    if (r == nullptr) return;
    r->host_done = true;
    while (r->unfinished > 0) go_on_with(host, *next_in_turn(host));
}

void release_residents(Worker& host) {
    if (host.residency == nullptr) return;
    for (const std::unique_ptr<Resident>& resident : host.residency->others) {
        munmap(resident->worker.stacks, resident->stack_bytes);
        release_shared(resident->worker);
        release_copies(resident->worker);
        release_named_barriers(resident->worker);
        release_async(resident->worker);
        release_products(resident->worker);
        release_watch(resident->worker);
    }
    delete host.residency;
    host.residency = nullptr;
}

}  // namespace kw

using namespace kw;

extern "C" void kw_grid_sync(int line) {
    if (current_worker == nullptr) return;
    Worker& worker = *current_worker;
    Launch& launch = *worker.launch;
    if (launch.request->cooperative == 0) {
        abandon(worker, Fault::kTrap,
                "grid.sync() in a kernel that was not launched with cudaLaunchCooperativeKernel: a GPU stops it.", line);
    }
    kw_barrier(KW_BARRIER_PLAIN, 0, line, -1);
    if (worker.current == 0) {
        const auto flag = reinterpret_cast<uintptr_t>(&launch.arrived_blocks);
        if (watching != nullptr) {
            note_fence(*watching, true);
            publish_at(*watching, flag, false);
        }
        const unsigned blocks = static_cast<unsigned>(launch.blocks);
        const unsigned all = (launch.arrived_blocks++ / blocks + 1) * blocks;
        for (unsigned seen; (seen = launch.arrived_blocks) < all;) poll(&launch.arrived_blocks, seen, at_line(line), false);
        kw_spin_over();
        if (watching != nullptr) learn_from(*watching, flag, false);
    }
    kw_barrier(KW_BARRIER_PLAIN, 0, line, -1);
}

extern "C" void kw_spin_over(void) {
    if (current_worker == nullptr || !kw_spinning) return;
    kw_spinning = 0;
    current_worker->launch->spinning_workers--;
    current_worker->launch->waiting_state++;
}

extern "C" void kw_spin(const void* address, uint64_t observed, int line) {
    if (current_worker != nullptr) poll(address, observed, at_line(line), false);
}

extern "C" void kw_poll(const void* address, uint64_t observed) {
    const uintptr_t code = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
    if (watching != nullptr) learn_from(*watching, reinterpret_cast<uintptr_t>(address), false);
    if (current_worker != nullptr) poll(address, observed, at_code(code), true);
}
