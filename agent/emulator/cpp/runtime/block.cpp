// Scheduler of one block, which chooses the thread that runs, and __syncthreads().
//
// A thread runs until it waits or returns; the draw (draw.cpp) chooses the order in which threads begin. Threads that
// never wait share one fiber, so a kernel without barriers costs a function call per thread. A thread that has
// returned counts as arrived at every barrier, as on a GPU.
#include "cluster.h"

extern "C" {
KW_TLS uint3 kw_thread_index;
KW_TLS uint3 kw_block_index;
KW_TLS uint3 kw_block_dim;
KW_TLS uint3 kw_grid_dim;
KW_TLS int kw_lane;
KW_TLS char* kw_shared_base;
extern const int kw_warp_size;
const int kw_warp_size = 32;
}

namespace kw {

KW_TLS Worker* current_worker;

namespace {

void set_current(Worker& worker, int thread) {
    worker.current = thread;
    worker.threads[thread].state = State::kReady;
    kw_thread_index = worker.threads[thread].index;
    kw_lane = thread % kWarpSize;
}

int take_ready(Worker& worker) {
    const int thread = worker.ready[worker.ready_head];
    worker.ready_head = (worker.ready_head + 1) % kMaxThreads;
    worker.ready_count--;
    return thread;
}

void release_barrier(Worker& worker) {
    int first = -1;
    int other = -1;
    int count = 0;
    bool all = true;
    for (int t = 0; t < worker.count; t++) {
        const Thread& thread = worker.threads[t];
        if (thread.state != State::kAtBarrier) continue;
        if (first < 0) first = t;
        const Thread& leader = worker.threads[first];
        if (other < 0 && (thread.line != leader.line || thread.site != leader.site)) other = t;
        count += thread.value != 0;
        all = all && thread.value != 0;
    }
    const int line = worker.threads[first].line;
    if (other >= 0) {
        report(&finding::kDivergentBarrier, Severity::kError, line, &worker, [&] {
            return format("Threads of one block wait at different __syncthreads(): thread %d at line %d, "
                          "thread %d at line %d. A GPU hangs or mixes them up; every thread of the block "
                          "must reach the same barrier.",
                          first, line, other, worker.threads[other].line);
        });
    }
    if (worker.finished > 0) {
        report(&finding::kBarrierAfterExit, Severity::kWarning, line, &worker, [&] {
            return format("%d of %d threads of the block had returned before the others reached this "
                          "__syncthreads().",
                          worker.finished, worker.count);
        });
    }
    if (watching != nullptr) note_barrier(*watching);
    worker.at_barrier = 0;
    for (int k = 0; k < worker.count; k++) {
        const int t = worker.order[k];
        Thread& thread = worker.threads[t];
        if (thread.state != State::kAtBarrier) continue;
        if (thread.kind == KW_BARRIER_COUNT) thread.result = static_cast<uint64_t>(count);
        if (thread.kind == KW_BARRIER_AND) thread.result = all;
        if (thread.kind == KW_BARRIER_OR) thread.result = count > 0;
        make_ready(worker, t);
    }
}

bool barrier_is_complete(const Worker& worker) {
    return worker.at_barrier > 0 && worker.at_barrier + worker.finished == worker.count;
}

void finish_thread(Worker& worker) {
    const int thread = worker.current;
    Warp& warp = worker.warps[thread / kWarpSize];
    worker.threads[thread].state = State::kDone;
    worker.finished++;
    warp.live &= ~(1u << (thread % kWarpSize));
    warp.runnable--;
    if (warp.pending_count > 0) settle_warp(worker, thread / kWarpSize);
    if (barrier_is_complete(worker)) release_barrier(worker);
    if (worker.any_named) settle_named_barriers(worker);
    if (worker.cluster != nullptr) leave_barrier(worker, thread);
}

// Runs threads one after the other. Leaves the fiber only when the running thread waits or no thread is left.
void fiber_main() {
    Worker& worker = *current_worker;
    const kw_launch_request& request = *worker.launch->request;
    for (;;) {
        Fiber* fiber = worker.current_fiber;
        request.entry(request.arguments);
        finish_thread(worker);
        if (worker.next_fresh < worker.count && (worker.ready_count == 0 || worker.launch->interleaved)) {
            const int fresh = worker.order[worker.next_fresh++];
            worker.threads[fresh].fiber = fiber;
            set_current(worker, fresh);
            continue;
        }
        worker.idle_fibers[worker.idle_count++] = fiber;
        void* discarded;
        void* next = worker.scheduler_context;
        if (worker.ready_count > 0) {
            set_current(worker, take_ready(worker));
            worker.current_fiber = worker.threads[worker.current].fiber;
            next = worker.current_fiber->context;
        }
        switch_context(&discarded, next);
        __builtin_unreachable();  // an idle fiber is set up anew before it is used again
    }
}

// Starts a thread that has not begun, on an idle or new fiber, because waiting threads occupy the other fibers.
void* start_fresh(Worker& worker) {
    Fiber* fiber = worker.idle_count > 0 ? worker.idle_fibers[--worker.idle_count]
                                         : &worker.fibers[worker.fibers_made++];
    make_fiber(worker, *fiber, static_cast<int>(fiber - worker.fibers), fiber_main);
    const int fresh = worker.order[worker.next_fresh++];
    worker.threads[fresh].fiber = fiber;
    worker.current_fiber = fiber;
    set_current(worker, fresh);
    return fiber->context;
}

void reset_block(Worker& worker) {
    worker.ready_head = worker.ready_count = 0;
    worker.next_fresh = worker.finished = worker.at_barrier = 0;
    worker.fibers_made = worker.idle_count = 0;
    forget_copies(worker);
    if (worker.any_named) forget_named_barriers(worker);
    if (worker.async != nullptr) forget_async(worker);
    if (worker.products != nullptr) forget_products(worker);
    order_threads(worker);
    for (int t = 0; t < worker.count; t++) {
        worker.threads[t].state = State::kFresh;
        worker.threads[t].stack = 0;
        worker.threads[t].came_to_cluster = false;
    }
    for (int w = 0; w < worker.warp_count; w++) {
        const int lanes = worker.count - w * kWarpSize < kWarpSize ? worker.count - w * kWarpSize : kWarpSize;
        worker.warps[w].live = lanes == kWarpSize ? 0xffffffffu : (1u << lanes) - 1;
        worker.warps[w].runnable = lanes;
        worker.warps[w].pending_count = 0;
    }
}

}  // namespace

void make_ready(Worker& worker, int thread) {
    worker.threads[thread].state = State::kReady;
    worker.warps[thread / kWarpSize].runnable++;
    worker.ready[(worker.ready_head + worker.ready_count++) % kMaxThreads] = thread;
}

// Suspends the current thread, and returns when its turn comes again. Continues with a ready thread, else with one that
// has not begun, else with run_block. In launches that interleave threads, those that have not begun come first, so
// that every thread has read before the first thread that yielded writes.
void park(Worker& worker) {
    Fiber* self = worker.current_fiber;
    void* next = worker.scheduler_context;
    if (worker.ready_count > 0 && !(worker.launch->interleaved && worker.next_fresh < worker.count)) {
        const int previous = worker.current;
        set_current(worker, take_ready(worker));
        if (worker.current == previous) return;
        worker.current_fiber = worker.threads[worker.current].fiber;
        next = worker.current_fiber->context;
    } else if (worker.next_fresh < worker.count) {
        next = start_fresh(worker);
    }
    switch_context(&self->context, next);
}

void run_block(Worker& worker) {
    reset_block(worker);
    prepare_shared(worker);
    if (watching != nullptr) begin_watched_block(*watching);
    while (worker.finished < worker.count) {
        void* next;
        if (worker.ready_count > 0) {
            set_current(worker, take_ready(worker));
            worker.current_fiber = worker.threads[worker.current].fiber;
            next = worker.current_fiber->context;
        } else if (worker.next_fresh < worker.count) {
            next = start_fresh(worker);
        } else if (wait_for_cluster(worker) || force_stuck_warp(worker)) {
            continue;
        } else {
            const Stuck stuck = stuck_at(worker);
            abandon(worker, Fault::kDeadlock, "No thread of the block can go on." + stuck.text, stuck.line);
        }
        switch_context(&worker.scheduler_context, next);
    }
    if (worker.async != nullptr) end_bulk(worker);
    if (worker.products != nullptr) end_products(worker);
    if (worker.cluster != nullptr) leave_cluster(worker);
    if (watching != nullptr) end_watched_block(*watching);
    note_shared_use(worker);
}

}  // namespace kw

using namespace kw;

extern "C" int kw_barrier(int kind, int predicate, int line, int site) {
    if (current_worker == nullptr) return 0;
    Worker& worker = *current_worker;
    Thread& thread = worker.threads[worker.current];
    const int warp = worker.current / kWarpSize;
    thread.state = State::kAtBarrier;
    thread.kind = kind;
    thread.value = predicate != 0;
    thread.line = line;
    thread.site = site;
    worker.at_barrier++;
    worker.warps[warp].runnable--;
    if (worker.warps[warp].pending_count > 0) settle_warp(worker, warp);
    if (barrier_is_complete(worker)) release_barrier(worker);
    park(worker);
    return static_cast<int>(thread.result);
}

extern "C" void kw_yield(void) {
    if (current_worker == nullptr) return;
    Worker& worker = *current_worker;
    worker.warps[worker.current / kWarpSize].runnable--;
    make_ready(worker, worker.current);
    if (worker.next_fresh < worker.count) {  // start another thread here: park could choose the current one again
        Fiber* self = worker.current_fiber;
        switch_context(&self->context, start_fresh(worker));
        return;
    }
    park(worker);
}
