// Choices that CUDA leaves open: the contents of unwritten memory, and the order in which blocks and threads run.
//
// The judge chooses both for each draw, from a secret number. An output that depends on either choice is wrong in some
// draw.
#include "watch.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace kw {

namespace {

// Number of consecutive blocks that may start in any order. A GPU starts blocks roughly in the order of their numbers,
// and every GPU runs at least this many at once. Kernels whose blocks wait for earlier blocks rely only on that.
constexpr unsigned long kBlockWindow = 16;
constexpr uint32_t kYieldMask = 3;  // on average one of four stores to global memory yields

struct Choice {
    uint32_t word = 0xffffffffu;  // fill of fresh memory
    bool used_memory = false;     // freed memory keeps its contents
    int order = KW_ORDER_FORWARD;
    uint64_t seed = 0;  // all ones for reverse order
};

Choice choice;

uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

// Returns the word that fills fresh memory. No single fill shows in every operation. NaN is lost in fmaxf, -1 in an
// atomicMax of integers, a huge number in a minimum, and a number near zero in a sum. Both halves of a huge word are
// equal, so that elements of 2, 4 and 8 bytes are all huge. The word of KW_MEMORY_LEAST is small as an integer and as a
// float.
uint32_t fresh_word_of(int memory, uint64_t seed) {
    const uint32_t random = static_cast<uint32_t>(mixed(seed));
    const uint32_t huge = 0x7100u + random % 0x700u;  // as a half at least 1e4, as a float's upper half 1e29
    switch (memory) {
        case KW_MEMORY_HUGE: return huge << 16 | huge;
        case KW_MEMORY_HUGE_NEGATIVE: return (huge << 16 | huge) | 0x80008000u;
        case KW_MEMORY_LEAST: return 1 + random % 15;
        default: return 0xffffffffu;
    }
}

// Permutes the first `count` elements at random.
void shuffle(int* order, int count, uint64_t seed) {
    for (int k = count - 1; k > 0; k--) {
        seed = mixed(seed);
        std::swap(order[k], order[seed % static_cast<uint64_t>(k + 1)]);
    }
}

}  // namespace

uint32_t fresh_word() { return choice.word; }

bool keeps_contents() { return choice.used_memory; }

// Fills fresh memory. It begins at a multiple of 4 bytes and has room for a whole word at its end.
void fill_fresh(void* first, size_t bytes) {
    if (choice.word == 0xffffffffu) {
        std::memset(first, 0xff, bytes);
    } else {
        std::fill_n(static_cast<uint32_t*>(first), (bytes + 3) / 4, choice.word);
    }
}

bool is_fresh(const char* at, size_t bytes) {
    const char* word = reinterpret_cast<const char*>(&choice.word);
    for (size_t k = 0; k < bytes; k++) {
        if (at[k] != word[reinterpret_cast<uintptr_t>(at + k) % 4]) return false;
    }
    return true;
}

unsigned long block_in_turn(unsigned long turn, unsigned long blocks) {
    if (choice.order == KW_ORDER_FORWARD) return turn;
    const unsigned long first = turn / kBlockWindow * kBlockWindow;
    const unsigned long count = std::min(kBlockWindow, blocks - first);
    if (choice.order == KW_ORDER_REVERSE) return first + count - 1 - (turn - first);
    return first + (turn - first + choice.seed) % count;
}

// Sets order[k] to the thread that starts as the k-th. The threads of a warp start one after the other, as on a GPU.
void order_threads(Worker& worker) {
    const bool known = worker.ordered_count == worker.count && worker.ordered_by == choice.order &&
                       worker.ordered_seed == choice.seed;
    if (known) return;
    worker.ordered_count = worker.count;
    worker.ordered_by = choice.order;
    worker.ordered_seed = choice.seed;
    int* order = worker.order;
    std::iota(order, order + worker.count, 0);
    if (choice.order == KW_ORDER_REVERSE) std::reverse(order, order + worker.count);
    if (choice.order != KW_ORDER_SHUFFLED && choice.order != KW_ORDER_INTERLEAVED) return;
    int warps[kMaxWarps];
    std::iota(warps, warps + worker.warp_count, 0);
    shuffle(warps, worker.warp_count, choice.seed);
    int next = 0;
    for (int w = 0; w < worker.warp_count; w++) {
        const int first = warps[w] * kWarpSize;
        const int lanes = std::min(kWarpSize, worker.count - first);
        int* const begin = order + next;
        std::iota(begin, begin + lanes, first);
        shuffle(begin, lanes, choice.seed + static_cast<uint64_t>(warps[w]));
        next += lanes;
    }
}

// Called before a plain store. If other threads see the memory, yields at random, so that they run between what this
// thread has read and what it writes.
void yield_before_store(uintptr_t address) {
    Worker& worker = *current_worker;
    if (address - reinterpret_cast<uintptr_t>(worker.shared) < kSharedArena) return;
    const uintptr_t stack = address - reinterpret_cast<uintptr_t>(worker.stacks);
    if (stack < kStackBytes * kMaxThreads) return;
    worker.chance = worker.chance * 1664525u + 1013904223u;
    if ((worker.chance >> 16 & kYieldMask) == 0) kw_yield();
}

bool interleaves() { return choice.order == KW_ORDER_INTERLEAVED; }
uint32_t chance_of(int worker) { return static_cast<uint32_t>(mixed(choice.seed + static_cast<uint64_t>(worker))); }

}  // namespace kw

using namespace kw;

extern "C" void kw_draw(int memory, int order, uint64_t seed) {
    if (!permitted("kw_draw")) return;
    choice.word = fresh_word_of(memory, seed);
    choice.used_memory = memory == KW_MEMORY_USED;
    choice.order = order;
    choice.seed = order == KW_ORDER_FORWARD ? 0 : order == KW_ORDER_REVERSE ? ~uint64_t{0} : mixed(seed);
}
