// Warp operations: shuffles, votes, matches, reductions, active masks.
//
// Lanes that wait for the same operation with the same mask form one pending group. (PTX pairs lanes by operation and
// mask, not by their place in the code.) Groups are examined only when no lane of the warp can run. This converges the
// warp as far as the code allows, as hardware does. A group completes when all lanes of its mask that have not returned
// have arrived. If missing lanes wait at another operation, the group is completed with a finding once no other thread
// of the block can run.
#include "watch.h"

#include <algorithm>

namespace kw {

namespace {

constexpr uint64_t kUndefined = ~uint64_t{0};  // result of a shuffle without source; NaN as a float, so that it shows

Thread& lane_of(Worker& worker, int warp, int lane) { return worker.threads[warp * kWarpSize + lane]; }

// Returns the lane that a shuffle reads; the lane itself if the source lies outside the segment (PTX ISA, shfl.sync).
int source_lane(const Thread& thread, int lane) {
    const int width = thread.width < 1 || thread.width > kWarpSize ? kWarpSize : thread.width;
    const int first = lane / width * width;
    switch (thread.kind) {
        case KW_SHUFFLE_INDEX: return first + static_cast<int>(static_cast<unsigned>(thread.argument) % width);
        case KW_SHUFFLE_UP: return lane - thread.argument < first ? lane : lane - thread.argument;
        case KW_SHUFFLE_DOWN: return lane + thread.argument >= first + width ? lane : lane + thread.argument;
        default: {
            const int source = lane ^ thread.argument;
            return source < 0 || source >= first + width ? lane : source;
        }
    }
}

uint64_t shuffled(Worker& worker, int warp, int lane) {
    const Thread& thread = lane_of(worker, warp, lane);
    const int source = source_lane(thread, lane);
    if (source == lane) return thread.value;
    const bool exists = warp * kWarpSize + source < worker.count;
    const Thread& other = lane_of(worker, warp, source);
    // A converged lane takes part even if the mask omits it, as on hardware.
    if (exists && other.state == State::kAtWarpOp && other.kind == thread.kind) return other.value;
    report(&finding::kWarpOpAbsentLanes, Severity::kWarning, thread.line, &worker, [&] {
        return format("Lane %d reads lane %d, which %s: the value is undefined.", lane, source,
                      exists ? "takes no part in this shuffle" : "does not exist in this block");
    });
    return kUndefined;
}

// Results over the lanes of a group that are equal for all its lanes.
struct Combined {
    uint32_t ballot = 0;
    bool all_equal = true;
    int32_t sum = 0, minimum = INT32_MAX, maximum = INT32_MIN;
    uint32_t minimum_unsigned = UINT32_MAX, maximum_unsigned = 0;
    uint32_t all_bits = UINT32_MAX, any_bits = 0, odd_bits = 0;
};

Combined combine(Worker& worker, int warp, uint32_t lanes) {
    Combined c;
    const uint64_t first = lane_of(worker, warp, __builtin_ctz(lanes)).value;
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        const uint64_t value = lane_of(worker, warp, lane).value;
        const uint32_t word = static_cast<uint32_t>(value);
        if (value != 0) c.ballot |= 1u << lane;
        c.all_equal = c.all_equal && value == first;
        c.sum = static_cast<int32_t>(static_cast<uint32_t>(c.sum) + word);
        c.minimum = std::min(c.minimum, static_cast<int32_t>(word));
        c.maximum = std::max(c.maximum, static_cast<int32_t>(word));
        c.minimum_unsigned = std::min(c.minimum_unsigned, word);
        c.maximum_unsigned = std::max(c.maximum_unsigned, word);
        c.all_bits &= word;
        c.any_bits |= word;
        c.odd_bits ^= word;
    }
    return c;
}

uint32_t lanes_with_value(Worker& worker, int warp, uint32_t lanes, uint64_t value) {
    uint32_t equal = 0;
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        if (lane_of(worker, warp, lane).value == value) equal |= 1u << lane;
    }
    return equal;
}

uint64_t combined_result(Worker& worker, int warp, uint32_t lanes, const Combined& c, const Thread& thread) {
    switch (thread.kind) {
        case KW_BALLOT: return c.ballot;
        case KW_ANY: return c.ballot != 0;
        case KW_ALL: return c.ballot == lanes;
        case KW_MATCH_ANY: return lanes_with_value(worker, warp, lanes, thread.value);
        case KW_MATCH_ALL: return c.all_equal ? lanes : 0;
        case KW_REDUCE_ADD: return static_cast<uint32_t>(c.sum);
        case KW_REDUCE_MIN: return static_cast<uint32_t>(c.minimum);
        case KW_REDUCE_MAX: return static_cast<uint32_t>(c.maximum);
        case KW_REDUCE_MIN_UNSIGNED: return c.minimum_unsigned;
        case KW_REDUCE_MAX_UNSIGNED: return c.maximum_unsigned;
        case KW_REDUCE_AND: return c.all_bits;
        case KW_REDUCE_OR: return c.any_bits;
        case KW_REDUCE_XOR: return c.odd_bits;
        case KW_ACTIVE_MASK: return lanes;
        default: return 0;
    }
}

// Scratch memory for operands and results of lanes that have returned.
alignas(16) KW_TLS char nobody[KW_COLLECTED_BYTES];

// Returns the function of a kw_warp_collect group. All its lanes passed the same function, kept in Thread::result.
kw_collected collected_by(Worker& worker, int warp, const Pending& group) {
    return reinterpret_cast<kw_collected>(lane_of(worker, warp, __builtin_ctz(group.arrived)).result);
}

void collect(Worker& worker, int warp, const Pending& group) {
    void* lanes[kWarpSize];
    for (int lane = 0; lane < kWarpSize; lane++) {
        const bool there = (group.arrived >> lane & 1) != 0;
        lanes[lane] = there ? reinterpret_cast<void*>(lane_of(worker, warp, lane).value) : nobody;
    }
    // The two calls order the lanes' earlier accesses before the operation, and their later accesses after it.
    if (watching != nullptr) note_warp_operation(*watching, warp, group.arrived);
    const int now = worker.current;
    worker.current = warp * kWarpSize;
    collected_by(worker, warp, group)(lanes);
    worker.current = now;
    if (watching != nullptr) note_warp_operation(*watching, warp, group.arrived);
}

void compute_results(Worker& worker, int warp, const Pending& group) {
    if (group.kind == KW_COLLECT) return collect(worker, warp, group);
    if (watching != nullptr && group.kind != KW_ACTIVE_MASK) note_warp_operation(*watching, warp, group.arrived);
    const bool shuffle = group.kind <= KW_SHUFFLE_XOR;
    const bool combines = !shuffle && group.kind != KW_SYNC && group.kind != KW_ACTIVE_MASK;
    const Combined combined = combines ? combine(worker, warp, group.arrived) : Combined{};
    for (uint32_t rest = group.arrived; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        Thread& thread = lane_of(worker, warp, lane);
        thread.result = shuffle ? shuffled(worker, warp, lane)
                                : combined_result(worker, warp, group.arrived, combined, thread);
    }
}

// Returns true if the draw lets the lanes of a warp continue in descending order.
bool lane_goes_last(const Worker& worker, int warp) { return (worker.ordered_seed >> warp & 1) != 0; }

void release_group(Worker& worker, int warp, const Pending& group) {
    const bool from_last = lane_goes_last(worker, warp);
    for (uint32_t rest = group.arrived; rest != 0;) {
        const int lane = from_last ? 31 - __builtin_clz(rest) : __builtin_ctz(rest);
        rest &= ~(1u << lane);
        make_ready(worker, warp * kWarpSize + lane);
    }
}

bool is_complete(const Warp& warp, const Pending& group) {
    if (group.kind == KW_ACTIVE_MASK) return true;
    const uint32_t needed = group.mask & warp.live;
    return (group.arrived & needed) == needed;
}

void report_exited_lanes(Worker& worker, int index, const Pending& group) {
    const Warp& warp = worker.warps[index];
    const uint32_t missing = group.mask & ~group.arrived & ~warp.live;
    const int threads_left = worker.count - index * kWarpSize;
    const uint32_t exists = threads_left >= kWarpSize ? 0xffffffffu : (1u << threads_left) - 1;
    // A full mask in a block whose size is no multiple of 32 is common and harmless.
    if (group.kind == KW_ACTIVE_MASK || (missing & exists) == 0) return;
    report(&finding::kWarpOpAbsentLanes, Severity::kWarning, group.line, &worker, [&] {
        return format("The mask 0x%08x of a warp operation names lanes 0x%08x, which have returned.",
                      group.mask, missing & exists);
    });
}

}  // namespace

// Completes the groups that can complete, if no lane of the warp can run.
void settle_warp(Worker& worker, int index) {
    Warp& warp = worker.warps[index];
    if (warp.runnable > 0) return;
    Pending done[kWarpSize];
    int done_count = 0;
    int kept = 0;
    const bool any_complete = std::any_of(warp.pending, warp.pending + warp.pending_count, [&](const Pending& group) {
        return group.kind != KW_ACTIVE_MASK && is_complete(warp, group);
    });
    for (int i = 0; i < warp.pending_count; i++) {
        const Pending group = warp.pending[i];
        // An active mask waits while another operation of the warp can complete, whose lanes may then join the mask.
        const bool now = is_complete(warp, group) && !(any_complete && group.kind == KW_ACTIVE_MASK);
        if (now) {
            done[done_count++] = group;
        } else {
            warp.pending[kept++] = group;
        }
    }
    warp.pending_count = kept;
    for (int i = 0; i < done_count; i++) {
        report_exited_lanes(worker, index, done[i]);
        compute_results(worker, index, done[i]);
    }
    for (int i = 0; i < done_count; i++) release_group(worker, index, done[i]);
}

// Called when nothing in the block can run: completes one group with the lanes that have arrived.
bool force_stuck_warp(Worker& worker) {
    for (int index = 0; index < worker.warp_count; index++) {
        Warp& warp = worker.warps[index];
        if (warp.pending_count == 0) continue;
        const Pending group = warp.pending[0];
        const uint32_t missing = group.mask & ~group.arrived & warp.live;
        const Thread& other = lane_of(worker, index, __builtin_ctz(missing));
        // A matrix product that only half a warp reaches hangs on an H200; a shuffle returns some value.
        const Severity severity = group.kind == KW_COLLECT ? Severity::kError : Severity::kWarning;
        report(&finding::kWarpOpDivergent, severity, group.line, &worker, [&] {
            return format("A warp operation with mask 0x%08x is reached only by lanes 0x%08x; lanes 0x%08x wait "
                          "at %s in line %d. On a GPU this hangs or gives undefined values.",
                          group.mask, group.arrived, missing,
                          other.state == State::kAtBarrier ? "__syncthreads()"
                          : other.state == State::kAtNamed   ? "a numbered barrier"
                          : other.state == State::kAtProduct ? "wgmma"
                                                           : "another warp operation",
                          other.line);
        });
        std::copy(warp.pending + 1, warp.pending + warp.pending_count, warp.pending);
        warp.pending_count--;
        compute_results(worker, index, group);
        release_group(worker, index, group);
        return true;
    }
    return false;
}

}  // namespace kw

using namespace kw;

namespace {

uint64_t warp_op(int kind, uint32_t mask, uint64_t value, int argument, int width, int line, kw_collected collected) {
    Worker& worker = *current_worker;
    const int index = worker.current / kWarpSize;
    const int lane = worker.current % kWarpSize;
    Warp& warp = worker.warps[index];
    Thread& thread = worker.threads[worker.current];
    if (kind != KW_ACTIVE_MASK && (mask >> lane & 1) == 0) {
        report(&finding::kWarpMaskExcludesCaller, Severity::kError, line, &worker, [&] {
            return format("Lane %d calls a warp operation with mask 0x%08x, which does not name it: its result is undefined.",
                          lane, mask);
        });
    }
    thread.state = State::kAtWarpOp;
    thread.kind = kind;
    thread.value = value;
    thread.argument = argument;
    thread.width = width;
    thread.line = line;
    if (kind == KW_COLLECT) thread.result = reinterpret_cast<uint64_t>(collected);

    Pending* group = nullptr;
    for (int i = 0; i < warp.pending_count; i++) {
        Pending& candidate = warp.pending[i];
        const bool same_place = kind != KW_ACTIVE_MASK || candidate.line == line;
        if (candidate.kind != kind || candidate.mask != mask || !same_place) continue;
        if (kind == KW_COLLECT && collected_by(worker, index, candidate) != collected) continue;
        group = &candidate;
    }
    if (group == nullptr) {
        group = &warp.pending[warp.pending_count++];
        *group = Pending{kind, mask, line, 0};
    }
    group->arrived |= 1u << lane;
    warp.runnable--;
    settle_warp(worker, index);
    park(worker);
    return thread.result;
}

}  // namespace

extern "C" uint64_t kw_warp_op(int kind, uint32_t mask, uint64_t value, int argument, int width, int line) {
    if (current_worker == nullptr) return value;
    return warp_op(kind, mask, value, argument, width, line, nullptr);
}

extern "C" void kw_warp_collect(kw_collected compute, void* mine, int line) {
    if (current_worker == nullptr) return;
    warp_op(KW_COLLECT, 0xffffffffu, reinterpret_cast<uint64_t>(mine), 0, kWarpSize, line, compute);
}

namespace {

void check_alignment(Worker& worker, const void* address, size_t bytes, uintptr_t code) {
    const size_t beyond = reinterpret_cast<uintptr_t>(address) % bytes;
    if (beyond == 0) return;
    report(&finding::kMisalignedAccess, Severity::kError, at_code(code), &worker, [&] {
        return format("An operation of the warp uses a row at an address that is not a multiple of %zu bytes (%zu too "
                      "many). A GPU stops the kernel: misaligned address.",
                      bytes, beyond);
    });
}

}  // namespace

extern "C" void kw_lane_access(int lane, const void* address, size_t bytes, int writes, void* code) {
    if (watching == nullptr) return;
    Worker& worker = *current_worker;
    const int now = worker.current;
    worker.current = now / kWarpSize * kWarpSize + lane;
    const uintptr_t place = reinterpret_cast<uintptr_t>(code);
    worker.access_code = place;
    check_alignment(worker, address, bytes, place);
    if (writes != 0) {
        check_copy(const_cast<void*>(address), nullptr, bytes, place);
    } else {
        check_source(address, bytes, place);
    }
    worker.current = now;
}
