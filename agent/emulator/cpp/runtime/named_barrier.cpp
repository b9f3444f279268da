// Numbered barriers: bar.sync and bar.arrive, each for a given number of the block's threads.
//
// A barrier completes once the given number of threads has arrived. A thread that arrives by bar.arrive does not wait.
// Barrier 0 for all threads is __syncthreads(), in block.cpp.
#include "watch.h"

namespace kw {

namespace {

bool is_complete(const Worker& worker, const NamedBarrier& barrier) {
    if (barrier.arrived == 0) return false;
    if (barrier.expected != 0) return barrier.arrived >= barrier.expected;
    return barrier.arrived + worker.finished >= worker.count;
}

void complete(Worker& worker, int number) {
    NamedBarrier& barrier = worker.named[number];
    int count = 0;
    bool all = true;
    for (int t = 0; t < worker.count; t++) {
        const Thread& thread = worker.threads[t];
        if (thread.state != State::kAtNamed || thread.argument != number) continue;
        count += thread.value != 0;
        all = all && thread.value != 0;
    }
    if (watching != nullptr) settle_write(*watching);
    for (int k = 0; k < worker.count; k++) {
        const int t = worker.order[k];
        Thread& thread = worker.threads[t];
        if (thread.state != State::kAtNamed || thread.argument != number) continue;
        if (thread.kind == KW_BARRIER_COUNT) thread.result = static_cast<uint64_t>(count);
        if (thread.kind == KW_BARRIER_AND) thread.result = all;
        if (thread.kind == KW_BARRIER_OR) thread.result = count > 0;
        if (watching != nullptr && barrier.clocks != nullptr) learn(*watching, t, *barrier.clocks);
        make_ready(worker, t);
    }
    barrier.arrived = 0;
    if (barrier.clocks != nullptr) barrier.clocks->at.clear();
}

// Notes the arrival of the current thread. Returns false, after a finding, for a barrier that no GPU has.
bool arrive(Worker& worker, int number, int threads, int line) {
    const auto refuse = [&](const std::string& why) {
        report(&finding::kNamedBarrier, Severity::kError, line, &worker, [&] { return why; });
    };
    if (number < 0 || number >= kNamedBarriers) {
        refuse(format("Barrier %d is used; a block has barriers 0 to %d.", number, kNamedBarriers - 1));
        return false;
    }
    if (threads % kWarpSize != 0) {
        refuse(format("Barrier %d is for %d threads, which is no multiple of the warp size: undefined.", number, threads));
    }
    NamedBarrier& barrier = worker.named[number];
    worker.any_named = true;
    if (barrier.arrived == 0) {
        barrier.expected = threads;
        barrier.line = line;
    } else if (barrier.expected != threads) {
        refuse(format("Barrier %d is for %d threads here and for %d in line %d, where others have come to it.", number,
                      threads, barrier.expected, barrier.line));
    }
    barrier.arrived++;
    if (watching != nullptr) {
        if (barrier.clocks == nullptr) barrier.clocks = new Clocks;
        contribute(*watching, worker.current, *barrier.clocks);
    }
    return true;
}

}  // namespace

void forget_named_barriers(Worker& worker) {
    for (NamedBarrier& barrier : worker.named) {
        barrier.arrived = 0;
        if (barrier.clocks != nullptr) barrier.clocks->at.clear();
    }
    worker.any_named = false;
}

void release_named_barriers(Worker& worker) {
    for (NamedBarrier& barrier : worker.named) {
        delete barrier.clocks;
        barrier.clocks = nullptr;
    }
}

void settle_named_barriers(Worker& worker) {
    for (int number = 0; number < kNamedBarriers; number++) {
        if (is_complete(worker, worker.named[number])) complete(worker, number);
    }
}

// Describes the numbered barriers and products that the block's stuck threads wait for.
Stuck stuck_at(const Worker& worker) {
    Stuck found{"", 0};
    for (int number = 0; number < kNamedBarriers; number++) {
        const NamedBarrier& barrier = worker.named[number];
        if (barrier.arrived == 0) continue;
        const int expected = barrier.expected != 0 ? barrier.expected : worker.count;
        found.text += format(" %d of %d threads have come to barrier %d (line %d).", barrier.arrived, expected, number,
                             barrier.line);
        if (found.line == 0) found.line = barrier.line;
    }
    found.text += stuck_at_products(worker, found.line);
    return found;
}

}  // namespace kw

using namespace kw;

extern "C" {

int kw_named_sync(int number, int threads, int kind, int predicate, int line) {
    if (current_worker == nullptr) return 0;
    Worker& worker = *current_worker;
    if (number == 0 && (threads == 0 || threads == worker.count)) return kw_barrier(kind, predicate, line, 0);
    Thread& thread = worker.threads[worker.current];
    if (!arrive(worker, number, threads, line)) return 0;
    const int warp = worker.current / kWarpSize;
    thread.state = State::kAtNamed;
    thread.kind = kind;
    thread.value = predicate != 0;
    thread.argument = number;
    thread.line = line;
    worker.warps[warp].runnable--;
    if (worker.warps[warp].pending_count > 0) settle_warp(worker, warp);
    if (is_complete(worker, worker.named[number])) complete(worker, number);
    park(worker);
    return static_cast<int>(thread.result);
}

void kw_named_arrive(int number, int threads, int line) {
    if (current_worker == nullptr) return;
    Worker& worker = *current_worker;
    if (arrive(worker, number, threads, line) && is_complete(worker, worker.named[number])) complete(worker, number);
}

}  // extern "C"
