// Matrix products of a warpgroup (wgmma). The 128 threads of a warpgroup meet at a product. Its reads are remembered
// until one of the threads has waited for its group of products.
#include "bulk.h"

#include <algorithm>

namespace kw {

namespace {

constexpr int kGroupThreads = 128;
constexpr int kMaxGroups = kMaxThreads / kGroupThreads;
constexpr uint32_t kUnit = 16;

// Threads of a warpgroup that have arrived at a product.
struct Meeting {
    int arrived;
    int line;
    kw_collected compute;
    void* lanes[kGroupThreads];
};

// Bytes of shared memory that a product reads.
struct Reading {
    uint32_t first, end;
};

// One operand in shared memory of a product for which no thread has waited.
struct InFlight {
    int group;           // index of the warpgroup
    uint32_t committed;  // number of the product's group, which wgmma.commit_group ends
    int warp;            // only warp that reads the operand, or -1 for all four
    uintptr_t code;
    Reading all;         // range that encloses all parts
    std::vector<Reading> parts;
};

}  // namespace

struct Products {
    Meeting meetings[kMaxGroups];
    kw_products threads[kMaxThreads];
    std::vector<InFlight> flying;
};

namespace {

Products& products_of(Worker& worker) {
    if (worker.products == nullptr) worker.products = new Products{};
    return *worker.products;
}

std::vector<Reading> joined(const uint32_t* units, int count) {
    std::vector<uint32_t> sorted(units, units + count);
    std::sort(sorted.begin(), sorted.end());
    std::vector<Reading> parts;
    for (const uint32_t unit : sorted) {
        if (!parts.empty() && unit <= parts.back().end) {
            parts.back().end = std::max(parts.back().end, unit + kUnit);
        } else {
            parts.push_back({unit, unit + kUnit});
        }
    }
    return parts;
}

void complete(Worker& worker, int group) {
    Meeting& meeting = products_of(worker).meetings[group];
    const int now = worker.current;
    for (int warp = 4 * group; watching != nullptr && warp < 4 * group + 4; warp++) {
        note_warp_operation(*watching, warp, UINT32_MAX);
    }
    worker.current = group * kGroupThreads;
    meeting.compute(meeting.lanes);
    worker.current = now;
    meeting.arrived = 0;
    for (int k = 0; k < worker.count; k++) {
        const int t = worker.order[k];
        if (t / kGroupThreads == group && worker.threads[t].state == State::kAtProduct) make_ready(worker, t);
    }
}

// Called when a thread has waited for the product. A later write to its operand is a race only in threads that are not
// ordered after a thread that waited.
void done(Worker& worker, const InFlight& product) {
    worker.pending_copies--;
    if (watching == nullptr) return;
    for (const Reading& part : product.parts) {
        note_group_read(*watching, part.first, part.end - part.first, product.code);
    }
}

}  // namespace

void forget_products(Worker& worker) {
    Products& products = *worker.products;
    for (Meeting& meeting : products.meetings) meeting.arrived = 0;
    std::fill_n(products.threads, worker.count, kw_products{});
    products.flying.clear();
}

void release_products(Worker& worker) {
    delete worker.products;
    worker.products = nullptr;
}

std::string stuck_at_products(const Worker& worker, int& line) {
    std::string text;
    if (worker.products == nullptr) return text;
    for (const Meeting& meeting : worker.products->meetings) {
        if (meeting.arrived == 0) continue;
        text += format(" %d of the 128 threads of a warpgroup have come to wgmma (line %d).", meeting.arrived, meeting.line);
        if (line == 0) line = meeting.line;
    }
    return text;
}

// Checks a write against the operands of products in flight. Returns false, after a finding, on overlap.
bool check_products(Worker& worker, size_t first, size_t bytes, uintptr_t code) {
    for (const InFlight& product : worker.products->flying) {
        const auto meets = [&](const Reading& part) { return first < part.end && part.first < first + bytes; };
        if (!meets(product.all) || std::none_of(product.parts.begin(), product.parts.end(), meets)) continue;
        report(&finding::kProductNotWaited, Severity::kError, at_code(code, product.code), &worker, [] {
            return std::string("Overwrites shared memory that the matrix product at {other} may still read: "
                               "wgmma.wait_group has to come first, and then whoever writes has to learn of it.");
        });
        return false;
    }
    return true;
}

// Reports a product that is still in flight when the block's threads have returned.
void end_products(Worker& worker) {
    if (watching != nullptr && !worker.products->flying.empty()) {
        const InFlight& product = worker.products->flying.front();
        worker.current = product.group * kGroupThreads;
        report(&finding::kProductNotWaited, Severity::kWarning, at_code(product.code), &worker, [] {
            return std::string("The block ends while this matrix product is under way: nobody has waited for it "
                               "(wgmma.commit_group, wgmma.wait_group).");
        });
    }
    worker.pending_copies -= worker.products->flying.size();
    worker.products->flying.clear();
}

}  // namespace kw

using namespace kw;

namespace {

kw_products& here() { return products_of(*current_worker).threads[current_worker->current]; }

}  // namespace

extern "C" {

kw_products kw_products_now(void) { return current_worker == nullptr ? kw_products{} : here(); }

void kw_group_collect(kw_collected compute, void* mine, int line) {
    if (current_worker == nullptr) return;
    Worker& worker = *current_worker;
    const int thread = worker.current, group = thread / kGroupThreads, warp = thread / kWarpSize;
    Meeting& meeting = products_of(worker).meetings[group];
    if (meeting.arrived == 0) {
        meeting.compute = compute;
        meeting.line = line;
    } else if (meeting.compute != compute) {
        abandon(worker, Fault::kDeadlock,
                format("Threads of one warpgroup have come to different products (wgmma), one in line %d: undefined.",
                       meeting.line),
                line);
    }
    meeting.lanes[thread % kGroupThreads] = mine;
    meeting.arrived++;
    worker.threads[thread].state = State::kAtProduct;
    worker.threads[thread].line = line;
    worker.warps[warp].runnable--;
    if (worker.warps[warp].pending_count > 0) settle_warp(worker, warp);
    if (meeting.arrived == kGroupThreads) complete(worker, group);
    park(worker);
}

// Called within `compute`. With `each_warp`, every warp reads a quarter of the units; otherwise every warp reads all.
int kw_product_reads(const uint32_t* units, int count, int each_warp, int swizzle, void* code) {
    Worker& worker = *current_worker;
    const auto place = reinterpret_cast<uintptr_t>(code);
    for (int k = 0; k < count; k++) {
        if (units[k] + kUnit <= kSharedArena) continue;
        report(&finding::kSharedOutOfBoundsRead, Severity::kError, at_code(place), &worker, [&] {
            return format("A matrix product reads %u bytes into shared memory, which no block has.", units[k]);
        });
        return 0;
    }
    if (watching == nullptr) return 1;
    Products& products = products_of(worker);
    const int first = worker.current, group = first / kGroupThreads;
    for (int part = 0; part < (each_warp != 0 ? 4 : 1); part++) {
        const int share = each_warp != 0 ? count / 4 : count;
        InFlight product{group, products.threads[first].committed, each_warp != 0 ? part : -1, place, {}, joined(units + part * share, share)};
        product.all = {product.parts.front().first, product.parts.back().end};
        for (int warp = 0; warp < 4; warp++) {
            if ((each_warp != 0 && warp != part) || (worker.launch->sampled && warp > 0)) continue;
            worker.current = first + warp * kWarpSize;
            for (const Reading& reading : product.parts) {
                const size_t bytes = reading.end - reading.first;
                if (worker.async != nullptr) check_in_flight(worker, worker.shared + reading.first, bytes, Access::kRead, place);
                async_access(*watching, reading.first, bytes, Access::kRead, place);
            }
        }
        worker.current = first;
        if (worker.launch->sampled) continue;  // sampled launches check addresses only, so the product is not tracked
        check_layout(*watching, product.parts.front().first, swizzle, place);
        products.flying.push_back(std::move(product));
        worker.pending_copies++;
    }
    return !worker.launch->sampled;
}

void kw_products_fence(void) {
    if (current_worker != nullptr) here().fences++;
}
void kw_products_commit(void) {
    if (current_worker != nullptr) here().committed++;
}

void kw_products_wait(uint32_t prior) {
    if (current_worker == nullptr) return;
    Worker& worker = *current_worker;
    Products& products = products_of(worker);
    kw_products& mine = products.threads[worker.current];
    mine.waited = mine.committed;
    if (prior < mine.committed) mine.done = std::max(mine.done, mine.committed - prior);
    if (products.flying.empty()) return;
    const int group = worker.current / kGroupThreads;
    const auto over = [&](const InFlight& product) {
        if (product.group != group || product.committed >= mine.done) return false;
        done(worker, product);
        return true;
    };
    products.flying.erase(std::remove_if(products.flying.begin(), products.flying.end(), over), products.flying.end());
}

// Reports the use of a register of a product in flight. ptxas detects a missing wait and inserts it, so that is only a
// warning. It does not detect a wait that leaves out too many groups.
void kw_product_touched(uint32_t group, int line) {
    if (watching == nullptr) return;
    const bool left_out = group <= here().waited;
    report(&finding::kProductNotWaited, left_out ? Severity::kError : Severity::kWarning, line, current_worker, [&] {
        return std::string("Uses a register of a matrix product (wgmma) that is under way: ") +
               (left_out ? "the last wgmma.wait_group has left out its group."
                         : "wgmma.commit_group and wgmma.wait_group have to come first. Undefined, though ptxas waits here "
                           "by itself where it can tell, and then for every product.");
    });
}

void kw_product_unfenced(int line) {
    if (watching == nullptr) return;
    report(&finding::kProductWithoutFence, Severity::kWarning, line, current_worker, [] {
        return std::string("A matrix product (wgmma) takes registers that were written before, without wgmma.fence in "
                           "between. Undefined, though ptxas puts the fence in where it can tell.");
    });
}

}  // extern "C"
