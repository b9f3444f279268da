// Asynchronous copies to shared memory (cp.async). A thread's copies are made when it waits for them, the latest
// moment that CUDA allows, so that a read before the wait does not find the data.
#include "watch.h"

#include <cstring>
#include <vector>

namespace kw {

struct Copy {
    char* to;
    const char* from;
    size_t bytes, zeros;  // zeros: bytes at the end that are zero-filled instead of copied
    uintptr_t code;
    uint32_t group;
};

// Asynchronous copies of the block that an OS thread runs. Each thread numbers its own groups.
struct Copies {
    std::vector<Copy> pending[kMaxThreads];  // copies of each thread
    uint32_t group[kMaxThreads];             // number of each thread's group that is not committed yet
};

namespace {

void make(Watch* watch, const Copy& copy) {
    if (watch != nullptr) check_copy(copy.to, nullptr, copy.bytes, copy.code);
    std::memcpy(copy.to, copy.from, copy.bytes - copy.zeros);
    std::memset(copy.to + copy.bytes - copy.zeros, 0, copy.zeros);
}

// Performs the current thread's pending copies in groups with numbers below `end`.
void finish(Worker& worker, uint32_t end) {
    std::vector<Copy>& pending = worker.copies->pending[worker.current];
    size_t done = 0;
    while (done < pending.size() && pending[done].group < end) done++;
    worker.pending_copies -= done;  // lowered first, so that a copy does not conflict with itself
    for (size_t k = 0; k < done; k++) make(watching, pending[k]);
    pending.erase(pending.begin(), pending.begin() + static_cast<long>(done));
}

void check_alignment(const Copy& copy, Worker& worker) {
    const auto misaligned = [&](const void* p) { return reinterpret_cast<uintptr_t>(p) % copy.bytes != 0; };
    if (!misaligned(copy.to) && !misaligned(copy.from)) return;
    report(&finding::kMisalignedAccess, Severity::kError, at_code(copy.code), &worker, [&] {
        return format("Copies %zu bytes asynchronously %s an address that is not a multiple of %zu bytes. A GPU "
                      "stops the kernel: misaligned address.",
                      copy.bytes, misaligned(copy.to) ? "to" : "from", copy.bytes);
    });
}

}  // namespace

void forget_copies(Worker& worker) {
    if (worker.copies == nullptr) return;
    for (int t = 0; t < worker.count; t++) {
        worker.copies->pending[t].clear();
        worker.copies->group[t] = 0;
    }
    worker.pending_copies = 0;
}

void release_copies(Worker& worker) {
    delete worker.copies;
    worker.copies = nullptr;
}

// Checks a read of shared memory against pending copies of the block. Returns false, after a finding, on overlap.
bool check_not_pending(Worker& worker, uintptr_t address, size_t bytes, uintptr_t code) {
    for (int t = 0; t < worker.count; t++) {
        for (const Copy& copy : worker.copies->pending[t]) {
            const uintptr_t to = reinterpret_cast<uintptr_t>(copy.to);
            if (address + bytes <= to || to + copy.bytes <= address) continue;
            report(&finding::kAsyncCopyNotWaited, Severity::kError, at_code(code, copy.code), &worker, [&] {
                return format("Reads shared memory to which thread %d copies asynchronously at {other} and has "
                              "not waited yet: the old contents may still be there. Wait for the copy "
                              "(__pipeline_wait_prior, consumer_wait, cg::wait), then __syncthreads().",
                              t);
            });
            return false;
        }
    }
    return true;
}

}  // namespace kw

using namespace kw;

extern "C" {

void kw_copy_async(void* to, const void* from, size_t bytes, size_t zeros) {
    if (current_worker == nullptr || bytes == 0) return;
    Worker& worker = *current_worker;
    if (worker.copies == nullptr) worker.copies = new Copies();
    const uintptr_t code = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
    const int thread = worker.current;
    const Copy copy{static_cast<char*>(to), static_cast<const char*>(from), bytes, zeros < bytes ? zeros : bytes,
                    code, worker.copies->group[thread]};
    if (watching != nullptr) {
        if (bytes == 4 || bytes == 8 || bytes == 16) check_alignment(copy, worker);
        if (copy.zeros < bytes) check_source(copy.from, bytes - copy.zeros, code);
    }
    worker.copies->pending[thread].push_back(copy);
    worker.pending_copies++;
}

void kw_copies_arrive(void* barrier, int counted) {
    if (current_worker == nullptr) return;
    if (current_worker->copies != nullptr) finish(*current_worker, UINT32_MAX);
    if (counted != 0) kw_mbarrier_arrive(barrier, 1, 0, 0);
}

void kw_commit_copies(void) {
    if (current_worker == nullptr || current_worker->copies == nullptr) return;
    current_worker->copies->group[current_worker->current]++;
}

void kw_wait_copies(unsigned prior) {
    if (current_worker == nullptr || current_worker->copies == nullptr) return;
    const uint32_t committed = current_worker->copies->group[current_worker->current];
    if (prior < committed) finish(*current_worker, committed - prior);
}

void kw_wait_all_copies(void) {
    kw_commit_copies();
    kw_wait_copies(0);
}

}  // extern "C"
