// Launches at a problem's real sizes, on a machine that cannot hold its tensors. Large memory is reserved without
// being committed, a sample of the blocks runs within a budget, and only addresses are checked.
//
// Reads of memory that no block wrote return a background of zeros or arbitrary numbers, so values mean nothing. Errors
// that depend on values are not reported, and a block that fails because of a value ends without a finding. Unused
// address space lies in front of each large piece of memory, where an access with a wrapped 32-bit index ends up.
#include "watch.h"

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

namespace kw {

namespace {

constexpr size_t kBefore = size_t{1} << 34;  // unused bytes in front of a piece: 2^31 elements of 8 bytes
constexpr size_t kPage = 4096;
constexpr size_t kBackground = size_t{1} << 24;  // period of the background in memory, bytes
// Work is counted in accesses. The first access to a page that was not used lately takes as long as several accesses.
constexpr long kNewPage = 16;
constexpr long kBlockWork = 1 << 18;
constexpr long kLittleWork = 1 << 11;  // work of a block once the call's budget kCallWork is used up
constexpr long kCallWork = 1 << 22;
constexpr size_t kRecentPages = 64;
constexpr long kPolls = 16;  // polls of a thread before it counts as waiting
constexpr long kUsedPages = 1 << 15;  // pages in use at once: 128 MiB
constexpr long kMappedAround = 16;  // pages of the background that the operating system maps when one is read
constexpr int kSpread = 16;
constexpr size_t kMaxNotes = 8;

struct Piece {
    uintptr_t mapping;
    size_t mapped;
    size_t bytes;
};

bool on;
bool no_blocks;
int background_file = -1;  // memfd of the background, made on first request
int background = -1;       // background_file, or -1 for a background of zeros
long call_work;  // work left of the call's budget
uintptr_t recent_pages[kRecentPages];
long used_pages;
std::map<uintptr_t, Piece> pieces;  // pieces by first byte; used by the host and one OS thread at a time
std::vector<std::string> notes;

// Makes a memfd of pseudo-random words: floats between 0.5 and 2 where they are read as float32.
int make_background() {
    const int file = memfd_create("background", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, kBackground) != 0) return -1;
    std::vector<uint32_t> words(kBackground / sizeof(uint32_t));
    uint32_t state = 1;
    for (uint32_t& word : words) {
        state = state * 1664525u + 1013904223u;
        word = 0x3f000000u + (state >> 8);
    }
    const ssize_t written = write(file, words.data(), kBackground);
    return written == static_cast<ssize_t>(kBackground) ? file : -1;
}

bool lay_out(uintptr_t first, size_t bytes) {
    void* start = reinterpret_cast<void*>(first);
    if (background < 0) {
        madvise(start, bytes, MADV_NOHUGEPAGE);
        return mprotect(start, bytes, PROT_READ | PROT_WRITE) == 0;
    }
    for (size_t done = 0; done < bytes; done += kBackground) {
        void* part = reinterpret_cast<void*>(first + done);
        const int flags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
        const size_t size = std::min(kBackground, bytes - done);
        if (mmap(part, size, PROT_READ | PROT_WRITE, flags, background, 0) == MAP_FAILED) return false;
    }
    return true;
}

size_t element_bytes(const std::string& label) {
    const std::string dtype = label.substr(0, label.find(' '));
    const std::string bits = dtype.size() < 2 ? "" : dtype.substr(dtype.size() - 2);
    return bits == "64" ? 8 : bits == "32" ? 4 : bits == "16" ? 2 : 1;
}

// Returns the region of the piece in whose unused space in front the address lies, or null.
const Region* piece_after(uintptr_t address) {
    const auto after = pieces.upper_bound(address);
    if (after == pieces.end() || address < after->second.mapping) return nullptr;
    return find_region(after->first);
}

// Returns true if a wrapped 32-bit index leads to this address, because an element of the region lies 2^32 elements
// further on.
bool wrapped(uintptr_t address, const Region& region, size_t& element, int64_t& index) {
    const int64_t offset = static_cast<int64_t>(address - region.first);
    for (const size_t size : {element_bytes(region.label), size_t{4}, size_t{2}, size_t{1}}) {
        index = offset / static_cast<int64_t>(size);
        const uint64_t meant = static_cast<uint64_t>(index) + (uint64_t{1} << 32);
        element = size;
        if (index >= INT_MIN && index < 0 && meant < region.bytes / size) return true;
    }
    return false;
}

bool report_wrapped(Watch& watch, uintptr_t address, size_t bytes, Access access, uintptr_t code) {
    const Region* region = piece_after(address);
    size_t element;
    int64_t index;
    if (region == nullptr || !wrapped(address, *region, element, index)) return false;
    report(&finding::kIndexOverflow, Severity::kError, at_code(code), watch.worker, [&] {
        return format("%s %zu bytes at %s %ld of a %s: %ld was meant, which is more than 2147483647 (2^31 - 1), so "
                      "a 32-bit index has wrapped around. Compute the index, and every product it is made of, in "
                      "int64_t or size_t.",
                      access == Access::kRead ? "Reads" : "Writes", bytes,
                      element == element_bytes(region->label) ? "element" : "offset", index,
                      region->label.empty() ? "tensor" : region->label.c_str(), index + (int64_t{1} << 32));
    });
    return true;
}

void add_around(std::vector<unsigned long>& chosen, unsigned long block, unsigned long blocks) {
    for (unsigned long k = block == 0 ? 0 : block - 1; k <= block + 1; k++) {
        if (k < blocks) chosen.push_back(k);
    }
}

// Returns the work of an access. Pages return to the operating system before too many are in use, because a memory
// limit counts a page of the background each time that it is mapped.
long work_of(uintptr_t address, Access access) {
    const uintptr_t page = address / kPage;
    uintptr_t& recent = recent_pages[page % kRecentPages];
    if (recent == page) return 1;
    recent = page;
    used_pages += access != Access::kRead ? 1 : background < 0 ? 0 : kMappedAround;
    if (used_pages >= kUsedPages) end_sampled_launch();
    return kNewPage;
}

bool is_out_of_bounds(Kind kind) {
    return kind == &finding::kGlobalOutOfBoundsRead || kind == &finding::kGlobalOutOfBoundsWrite;
}

// Adds a note to the verdict's scope, once.
void add_note(const std::string& text) {
    if (notes.size() < kMaxNotes && std::find(notes.begin(), notes.end(), text) == notes.end()) notes.push_back(text);
}

}  // namespace

bool sampling() { return on; }
bool host_only() { return no_blocks; }

// Returns the numbers of the blocks to run: the first and last, the corners of the grid, and some between. It adds
// blocks at which an offset into a tensor passes 2^31 or 2^32, supposing that the grid walks through the tensor in
// order.
std::vector<unsigned long> sampled_blocks(const kw_launch_request& request) {
    const dim3 grid = request.grid;
    const unsigned long row = grid.x, plane = row * grid.y, blocks = plane * grid.z;
    const unsigned long threads = static_cast<unsigned long>(request.block.x) * request.block.y * request.block.z;
    std::vector<unsigned long> chosen;
    for (const unsigned long corner : {0ul, row - 1, plane - row, plane - 1, blocks - plane, blocks - 1}) {
        add_around(chosen, corner, blocks);
    }
    for (unsigned long k = 1; k < kSpread; k++) {
        chosen.push_back(static_cast<unsigned long>(static_cast<double>(blocks) / kSpread * static_cast<double>(k)));
    }
    for (const unsigned long limit : {1ul << 31, 1ul << 32}) {
        add_around(chosen, limit / threads, blocks);
        for (const auto& [first, piece] : pieces) {
            for (const unsigned long size : {1, 2, 4, 8}) {
                const double part = static_cast<double>(limit * size) / static_cast<double>(piece.bytes);
                if (part < 1) add_around(chosen, static_cast<unsigned long>(part * static_cast<double>(blocks)), blocks);
            }
        }
    }
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    return chosen;
}

void begin_sampled_block(Watch& watch) { watch.work_left = call_work > 0 ? kBlockWork : kLittleWork; }

// Ends the block without a finding in a sampled launch; does nothing in other launches. `why` is a note, or null.
void give_up(Worker& worker, const char* why) {
    if (!worker.launch->sampled) return;
    if (why != nullptr) add_note(format("kernel %s: %s", worker.launch->request->name, why));
    abandon(worker, Fault::kGivenUp, "", 0);
}

// Returns true if the OS thread continues with the next block after a fault.
bool goes_on_after_fault(Worker& host) {
    Worker& failed = *current_worker;
    const Fault kind = failed.fault.kind;
    const bool arithmetic = kind == Fault::kSignal && failed.fault.signal == SIGFPE;
    const bool over_value = arithmetic || kind == Fault::kAssert || kind == Fault::kTrap || kind == Fault::kDeadlock;
    if (!host.launch->sampled || (kind != Fault::kGivenUp && !over_value)) return false;
    if (over_value) add_note(format("kernel %s: stopped over a value", host.launch->request->name));
    note_shared_use(host);
    current_worker = &host;
    watching = host.watch;
    return true;
}

// Checks an access of a sampled launch outside shared memory. `inside` is true if the access lies within a region. An
// access outside all regions ends the launch, as on a GPU, because it could hit any memory.
void sampled_access(Watch& watch, bool inside, uintptr_t address, size_t bytes, Access access, uintptr_t code) {
    Worker& worker = *watch.worker;
    if (inside) {
        const long work = work_of(address, access);
        call_work -= work;
        watch.work_left -= work;
        if (watch.work_left > 0) return;
        give_up(worker, worker.spin.count > kPolls ? kWaiting : nullptr);
    }
    if (!report_wrapped(watch, address, bytes, access, code)) {
        const Misplaced found = explain(address, bytes, access);
        if (found.kind == nullptr || !is_out_of_bounds(found.kind)) {
            give_up(worker, "follows pointers that it reads");
        }
        report(found.kind, Severity::kError, at_code(code), &worker, [&] { return found.text; });
    }
    abandon(worker, Fault::kMisplaced, "", 0);
}

void end_sampled_launch() {
    used_pages = 0;
    for (const auto& [first, piece] : pieces) madvise(reinterpret_cast<void*>(first), piece.bytes, MADV_DONTNEED);
}

void* reserve_piece(size_t bytes) {
    const size_t room = (bytes + kPage - 1) / kPage * kPage;
    const size_t mapped = kBefore + room + kPage;
    void* memory = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    const uintptr_t mapping = reinterpret_cast<uintptr_t>(memory);
    const uintptr_t first = mapping + kBefore;
    if (!lay_out(first, room)) {
        munmap(memory, mapped);
        return nullptr;
    }
    forget_freed(mapping, mapped);
    pieces[first] = Piece{mapping, mapped, bytes};
    add_region(reinterpret_cast<void*>(first), bytes, "");
    return reinterpret_cast<void*>(first);
}

bool release_piece(void* pointer) {
    const auto found = pieces.find(reinterpret_cast<uintptr_t>(pointer));
    if (found == pieces.end()) return false;
    remove_region(pointer);
    munmap(reinterpret_cast<void*>(found->second.mapping), found->second.mapped);
    pieces.erase(found);
    return true;
}

}  // namespace kw

using namespace kw;

extern "C" void kw_sample(int mode) {
    if (!permitted("kw_sample")) return;
    on = mode != KW_SAMPLE_OFF;
    no_blocks = mode == KW_SAMPLE_HOST_ONLY;
    if (mode == KW_SAMPLE_NUMBERS && background_file < 0) background_file = make_background();
    background = mode == KW_SAMPLE_NUMBERS ? background_file : -1;
    call_work = kCallWork;
    notes.clear();
    forget_errors();
    forget_kernels();
    kw_check(on);
}

extern "C" size_t kw_sample_notes(char* buffer, size_t capacity) {
    std::string text;
    for (const std::string& note : notes) text += (text.empty() ? "" : "\n") + note;
    return copy_text(text, buffer, capacity);
}
