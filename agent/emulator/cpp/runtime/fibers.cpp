// Fibers that a block's threads run in: stacks with guard pages, and the switch between contexts.
//
// On x86-64 the switch takes a dozen instructions; elsewhere ucontext does the same, slower.
#include "state.h"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

#if !defined(__x86_64__) || defined(KW_PORTABLE_FIBERS)
#include <ucontext.h>
#endif

namespace kw {

namespace {

char* map_stacks() {
    const size_t bytes = kStackBytes * kMaxThreads;
    void* memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        std::fprintf(stderr, "emulator: no address space for the stacks of a block (%zu bytes)\n", bytes);
        std::exit(70);
    }
    return static_cast<char*>(memory);
}

// Returns the top of a fiber's stack. Stacks lie a power of two apart, so the tops are staggered to avoid sharing cache
// sets.
char* stack_top(const Fiber& fiber, int number) {
    const size_t stagger = static_cast<size_t>(number * 17 % 61) * 64;
    return fiber.stack + kStackBytes - 64 - stagger;
}

}  // namespace

// Gives the fiber a stack, if it has none, and sets the fiber up to start in `entry`.
void make_fiber(Worker& worker, Fiber& fiber, int number, void (*entry)()) {
    if (fiber.stack == nullptr) {
        if (worker.stacks == nullptr) worker.stacks = map_stacks();
        fiber.stack = worker.stacks + kStackBytes * static_cast<size_t>(number);
        if (worker.guards) mprotect(fiber.stack, kGuardBytes, PROT_NONE);
    }
    fiber.context = new_fiber_context(fiber, number, entry);
}

bool in_guard(const Worker& worker, uintptr_t address) {
    const uintptr_t first = reinterpret_cast<uintptr_t>(worker.stacks);
    const uintptr_t offset = address - first;
    return first != 0 && offset < kStackBytes * kMaxThreads && offset % kStackBytes < kGuardBytes;
}

#if defined(__x86_64__) && !defined(KW_PORTABLE_FIBERS)

extern "C" void kw_switch_context(void** save, void* to);

// System V ABI: a callee preserves rbx, rbp and r12-r15; the caller saves all other registers.
__asm__(
    ".text\n"
    ".globl kw_switch_context\n"
    ".hidden kw_switch_context\n"
    ".type kw_switch_context, @function\n"
    "kw_switch_context:\n"
    "  pushq %rbp\n"
    "  pushq %rbx\n"
    "  pushq %r12\n"
    "  pushq %r13\n"
    "  pushq %r14\n"
    "  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n"
    "  popq %r14\n"
    "  popq %r13\n"
    "  popq %r12\n"
    "  popq %rbx\n"
    "  popq %rbp\n"
    "  ret\n"
    ".size kw_switch_context, .-kw_switch_context\n");

void switch_context(void** save, void* to) { kw_switch_context(save, to); }

void* new_fiber_context(Fiber& fiber, int number, void (*entry)()) {
    const uintptr_t top = reinterpret_cast<uintptr_t>(stack_top(fiber, number)) & ~uintptr_t{15};
    uint64_t* word = reinterpret_cast<uint64_t*>(top);
    *--word = 0;  // aligns the stack as after a call; `entry` never returns to it
    *--word = reinterpret_cast<uint64_t>(entry);
    for (int saved = 0; saved < 6; saved++) *--word = 0;
    return word;
}

#else

void switch_context(void** save, void* to) {
    ucontext_t here;
    *save = &here;
    swapcontext(&here, static_cast<ucontext_t*>(to));
}

void* new_fiber_context(Fiber& fiber, int number, void (*entry)()) {
    // The context is stored at the top of the stack on which it starts.
    const uintptr_t top = reinterpret_cast<uintptr_t>(stack_top(fiber, number)) - sizeof(ucontext_t);
    ucontext_t* context = reinterpret_cast<ucontext_t*>(top & ~uintptr_t{63});
    getcontext(context);
    context->uc_stack.ss_sp = fiber.stack + kGuardBytes;
    context->uc_stack.ss_size = reinterpret_cast<char*>(context) - (fiber.stack + kGuardBytes);
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
    return context;
}

#endif

}  // namespace kw
