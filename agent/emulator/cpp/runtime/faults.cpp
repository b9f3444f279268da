// Handling of hardware faults in kernels and in copies, which become findings and do not end the process.
//
// The signal handler only notes the fault and jumps out, because it may have interrupted anything, the allocator
// included. Findings are written after the jump.
#include "watch.h"

#include <cassert>
#include <csignal>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <mutex>
#include <ucontext.h>

namespace kw {

namespace {

constexpr size_t kAlternateStackBytes = 64 * 1024;
constexpr uintptr_t kNullPage = 64 * 1024;  // a null pointer plus an index is still a null pointer
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE};

struct sigaction previous_actions[3];
std::mutex handlers_mutex;
int handler_users;

KW_TLS sigjmp_buf* volatile copy_recovery;
KW_TLS char* alternate_stack;
KW_TLS stack_t previous_stack;

void give_back_to_previous_handler(int signal) {
    for (size_t i = 0; i < 3; i++) {
        if (kSignals[i] == signal) sigaction(signal, &previous_actions[i], nullptr);
    }
    raise(signal);
}

uintptr_t instruction_of(void* context) {
    const ucontext_t& state = *static_cast<ucontext_t*>(context);
#if defined(__x86_64__)
    return static_cast<uintptr_t>(state.uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return state.uc_mcontext.pc;
#else
    return 0 * state.uc_flags;
#endif
}

void on_fault(int signal, siginfo_t* info, void* context) {
    if (copy_recovery != nullptr) siglongjmp(*copy_recovery, 1);
    if (current_worker == nullptr) {
        give_back_to_previous_handler(signal);
        return;
    }
    FaultRecord& fault = current_worker->fault;
    fault.kind = Fault::kSignal;
    fault.signal = signal;
    fault.cause = info->si_code;
    fault.code = instruction_of(context) + 1;  // one byte further, because findings carry return addresses
    fault.address = reinterpret_cast<uintptr_t>(info->si_addr);
    siglongjmp(current_worker->host->recovery, 1);
}

// Runs a memcpy or memset on addresses that a candidate chose. Returns false on a fault.
template <class Access>
bool guarded(Access access) {
    const FaultHandlers handlers;
    sigjmp_buf recovery;
    sigjmp_buf* outer = copy_recovery;
    const bool intact = sigsetjmp(recovery, 1) == 0;
    if (intact) {
        copy_recovery = &recovery;
        std::atomic_signal_fence(std::memory_order_seq_cst);
        access();
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    copy_recovery = outer;
    return intact;
}

// Returns the address of the kernel code that faulted. For atomics and volatile reads, which the runtime makes on the
// kernel's behalf, that is the code of the access and not the faulting instruction.
uintptr_t kernel_code(const Worker& worker) {
    Dl_info here{}, fault{};
    const bool known = dladdr(reinterpret_cast<void*>(&copy_guarded), &here) != 0 &&
                       dladdr(reinterpret_cast<void*>(worker.fault.code), &fault) != 0;
    return known && here.dli_fbase == fault.dli_fbase ? worker.access_code : worker.fault.code;
}

void report_signal(Worker& worker) {
    const FaultRecord& fault = worker.fault;
    const bool protection = fault.cause == SI_KERNEL;  // general protection: the processor gives no address
    Kind kind = &finding::kIllegalAddress;
    std::string text;
    if (fault.signal == SIGFPE) {
        kind = &finding::kDivideByZero;
        text = "Integer division or remainder by zero (or the most negative integer by -1); a GPU returns an "
               "undefined value.";
    } else if (!protection && in_guard(worker, fault.address)) {
        kind = &finding::kDeviceStackOverflow;
        text = format("A thread needs more than %zu KB of stack: very large local arrays or endless recursion.",
                      (kStackBytes - kGuardBytes) / 1024);
    } else if (protection || fault.signal == SIGBUS) {
        text = "Illegal memory access: a vector access to an address that is not a multiple of its size, or a "
               "pointer with a senseless value.";
    } else if (fault.address < kNullPage) {
        text = format("Illegal memory access at address 0x%zx: a null pointer was dereferenced.",
                      static_cast<size_t>(fault.address));
    } else {
        text = format("Illegal memory access at address 0x%zx, which belongs to no allocation.",
                      static_cast<size_t>(fault.address));
    }
    const bool known = watching != nullptr && watching->reported != kNothing &&
                       (protection || fault.address - watching->reported < 64);
    if (!known) report(kind, Severity::kError, at_code(kernel_code(worker)), &worker, [&] { return text; });
    set_sticky_error(fault.signal == SIGFPE ? cudaErrorLaunchFailure : cudaErrorIllegalAddress);
}

}  // namespace

FaultHandlers::FaultHandlers() {
    const std::lock_guard<std::mutex> lock(handlers_mutex);
    if (handler_users++ > 0) return;
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (size_t i = 0; i < 3; i++) sigaction(kSignals[i], &action, &previous_actions[i]);
}

FaultHandlers::~FaultHandlers() {
    const std::lock_guard<std::mutex> lock(handlers_mutex);
    if (--handler_users > 0) return;
    for (size_t i = 0; i < 3; i++) sigaction(kSignals[i], &previous_actions[i], nullptr);
}

// Turns the alternate signal stack on or off. The handler needs it, because it cannot run on a stack that overflowed.
void use_alternate_stack(bool on) {
    if (!on) {
        sigaltstack(&previous_stack, nullptr);
        delete[] alternate_stack;
        alternate_stack = nullptr;
        return;
    }
    alternate_stack = new char[kAlternateStackBytes];
    stack_t stack{};
    stack.ss_sp = alternate_stack;
    stack.ss_size = kAlternateStackBytes;
    sigaltstack(&stack, &previous_stack);
}

bool copy_guarded(void* to, const void* from, size_t bytes) {
    return guarded([=] { std::memmove(to, from, bytes); });
}

bool fill_guarded(void* to, int byte, size_t bytes) {
    return guarded([=] { std::memset(to, byte, bytes); });
}

// Reports the fault of an abandoned kernel, on the OS thread that ran the kernel.
void report_fault(Worker& worker) {
    const FaultRecord& fault = worker.fault;
    switch (fault.kind) {
        case Fault::kSignal: report_signal(worker); return;
        case Fault::kAssert:
        case Fault::kTrap:
            report(&finding::kDeviceAssert, Severity::kError, fault.line, &worker, [&] { return fault.text; });
            set_sticky_error(fault.kind == Fault::kAssert ? cudaErrorAssert : cudaErrorLaunchFailure);
            return;
        case Fault::kSharedLimit:
            report(&finding::kSharedMemoryLimit, Severity::kError, fault.line, &worker, [&] { return fault.text; });
            set_error(cudaErrorInvalidValue, launch_text(*worker.launch->request),
                      at_line(worker.launch->request->line));
            return;
        case Fault::kDeadlock:
            report(&finding::kDeadlock, Severity::kError, fault.line > 0 ? at_line(fault.line) : at_code(fault.code), &worker,
                   [&] { return fault.text; });
            set_sticky_error(cudaErrorLaunchTimeout);
            return;
        case Fault::kMisplaced: set_sticky_error(cudaErrorIllegalAddress); return;
        case Fault::kGivenUp:
        case Fault::kNone: return;
    }
}

}  // namespace kw

using namespace kw;

extern "C" void kw_assert_fail(const char* condition, const char* file, unsigned line, const char* function) {
    if (current_worker == nullptr) __assert_fail(condition, file, line, function);
    abandon(*current_worker, Fault::kAssert, format("Device assertion `%s' failed.", condition),
            static_cast<int>(line));
}

extern "C" void kw_trap(int line) {
    if (current_worker == nullptr) __builtin_trap();
    abandon(*current_worker, Fault::kTrap, "The kernel called __trap().", line);
}

extern "C" long long kw_clock(void) {
#if defined(__x86_64__)
    return static_cast<long long>(__builtin_ia32_rdtsc());
#else
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
#endif
}
