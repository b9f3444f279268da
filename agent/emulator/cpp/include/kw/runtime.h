// C interface of libkw_runtime, which runs CUDA kernels on a CPU: launches, device memory, findings and the record.
//
// A launch runs the blocks of the grid on a few OS threads. The threads of a block are fibers of one OS thread: one
// runs at a time, and they switch at barriers and warp operations. Device code (kw/device.h) and host code (the slim
// torch headers, ctypes) know the runtime only through this header. The CUDA runtime API (cudaMalloc,
// cudaGetLastError, ...) is declared by NVIDIA's cuda_runtime_api.h and defined in the same library.
//
// Timing and caches are not emulated. Every call has finished when it returns; streams.cpp checks that the program
// would also be ordered correctly if streams overlapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <vector_types.h>

#define KW_TORCH_MEMORY "libkw_torch.so"  // library with kw_serve_torch, in the directory of the runtime's library

extern "C" {

enum {
    KW_FRESH_BYTE = 0xFF,         // fill of fresh device memory, unless kw_draw chooses another
    KW_LARGEST_LITERAL = 8 << 20, // bytes of host data up to which a record has the data; beyond it only their size
    KW_SAMPLED_BYTES = 1 << 20,   // while sampling, allocations from this size on are reserved, not committed
    KW_UNLOCATED_LINE = 1000000,  // line numbers from here on are not lines of the candidate's file
    KW_RUNNING_BYTES = 512,       // size of the file of kw_tell_running
    KW_SHARED_LIMIT_ATTRIBUTE = 8,  // cudaFuncAttributeMaxDynamicSharedMemorySize
    KW_HOST_TO_DEVICE = 1           // cudaMemcpyHostToDevice
};
#define KW_LARGEST_ARENA 0x10000000000  // maximum device memory that can be reserved, in bytes: 1 TiB

#ifdef __cplusplus
static_assert(KW_SHARED_LIMIT_ATTRIBUTE == cudaFuncAttributeMaxDynamicSharedMemorySize, "CUDA's own number");
static_assert(KW_HOST_TO_DEVICE == cudaMemcpyHostToDevice, "CUDA's own number");
#endif

// ---- Host side -------------------------------------------------------------------------------------

// Sets the number of OS threads that run blocks (clamped to 1..8; default 2).
void kw_init(int workers);

// Allocates device memory, 512-byte aligned, with unused addresses on both sides; null if the arena is full. Every
// byte is 0xFF, so that unwritten floats are NaN, unless kw_draw chose another fill. kw_alloc_unfilled serves torch's
// allocator: it keeps the old contents and is not recorded. kw_free ignores null and pointers that kw_alloc did not
// return.
void* kw_alloc(size_t bytes);
void* kw_alloc_unfilled(size_t bytes);
void kw_free(void* pointer);

// Returns 1 if the address lies in the range of device memory, allocated or not.
int kw_on_device(const void* pointer);

// Returns the number of allocated bytes of device memory.
size_t kw_allocated(void);

// Return the number of accepted kernel launches so far, and their distinct kernel names, separated by newlines.
// kw_launch_names writes at most `capacity` bytes with the final NUL. It returns the length of the whole text without
// the NUL, so that the caller can enlarge a buffer that was too small. All functions with a buffer do the same.
long kw_launch_count(void);
size_t kw_launch_names(char* buffer, size_t capacity);

// Writes the distinct kernels launched since the last kw_sample, in the order of their first launch, as a JSON array of
// objects:
//   kernel   the compiler's signature with template arguments, or else the callee as written in the launch
//   threads  maximum number of threads per block over the kernel's launches
//   shared   maximum bytes of dynamic shared memory over the kernel's launches
//   line     source line of the kernel's first launch
size_t kw_kernels(char* buffer, size_t capacity);

// Keeps the text "LINE NAME" of the running kernel in the file at `path`, for the rest of the process.
void kw_tell_running(const char* path);

// Writes the findings as a JSON array of objects in the order of first occurrence, one per kind, place and kernel:
//   kind, message  the builder replaces "{other}" in a message by the line of the other access of a race
//   kernel, line   name of the kernel and source line, or null
//   block, thread  index [x, y, z], or null
//   count          number of occurrences
//   severity       "error" or "warning"
//   place, other   library and offset of code whose line is not known yet, and of the other access of a race; or null
size_t kw_findings(char* buffer, size_t capacity);
void kw_clear_findings(void);

// Turns checked execution on or off for the launches that follow (default off). Every access of device code that was
// compiled with checks is then checked for bounds, for races, and for reads of unwritten shared memory.
void kw_check(int on);

// Makes choices that CUDA leaves open. `memory` is the contents of fresh memory:
//   ONES           bytes 0xFF
//   HUGE           floats of at least 1e4 in every format; HUGE_NEGATIVE: the same negated
//   LEAST          an integer below 16
//   USED           what the memory held when it was freed
// `order` is the order in which blocks, warps and lanes begin. INTERLEAVED is SHUFFLED with yields of threads before
// some of their stores to global memory, in code compiled with checks.
enum { KW_MEMORY_ONES, KW_MEMORY_HUGE, KW_MEMORY_HUGE_NEGATIVE, KW_MEMORY_LEAST, KW_MEMORY_USED };
enum { KW_ORDER_FORWARD, KW_ORDER_REVERSE, KW_ORDER_SHUFFLED, KW_ORDER_INTERLEAVED };
void kw_draw(int memory, int order, uint64_t seed);

// Turns on or off the notes on the last writer of each word of global memory in checked launches (default off). Every
// call restarts the count of launches at 1. kw_writers returns how many 4-byte words of [first, first + bytes) the last
// launch wrote. It also fills one cell per word, unless `cells` is null or no writer is known. Fields of a cell from
// the upper end:
//   12 bits  launch that wrote the word last; 0: none
//   24       block of that write
//   10       thread of that write
//   14       number of earlier stores of the thread to the allocation
//    2       unused
//    1       several threads of that launch wrote the word
//    1       the last write was atomic
void kw_note_writers(int on);
size_t kw_writers(const void* first, size_t bytes, uint64_t* cells);

// Locks the judge's switches: kw_init, kw_check, kw_note_writers, kw_draw, kw_sample, kw_record, kw_record_note,
// kw_clear_findings, kw_tell_running, kw_host_returned, kw_call_begins and kw_call_ends. After the first kw_lock a call
// of a switch only leaves a finding, except in a thread between kw_unlock and kw_lock with the same key.
void kw_lock(uint64_t key);
void kw_unlock(uint64_t key);

// Turns sampling on or off. While it is on, launches at real sizes run a sample of their blocks on reserved memory, and
// only addresses are checked. Allocations from 1 MiB on hold zeros (ZEROS) or numbers (NUMBERS). HOST_ONLY notes and
// checks the launches, but runs no block. Pending errors are forgotten. kw_sample_notes writes one line per kernel that
// ran only in part.
enum { KW_SAMPLE_OFF, KW_SAMPLE_ZEROS, KW_SAMPLE_NUMBERS, KW_SAMPLE_HOST_ONLY };
void kw_sample(int mode);
size_t kw_sample_notes(char* buffer, size_t capacity);

// Registers memory outside the arena that kernels may use, or names memory inside it for messages, such as "float32
// tensor [2, 3]". Returns 1 if the memory was not known before. The registration ends with kw_unregister, with kw_free,
// or when other memory at these addresses is registered.
int kw_register(const void* first, size_t bytes, const char* label);
void kw_unregister(const void* first);

// Turns the record of all operations on device memory on or off (default off). With it another process can repeat the
// launches without this process's host code. The record has one JSON object per line (torch_shim/recording.py).
// kw_record_settle records direct writes of host code. Call it before memory changes in a way that the runtime does not
// see, and kw_record_note after the change, with a line that describes it.
void kw_record(int on);
void kw_record_settle(void);
void kw_record_note(const char* line);
size_t kw_recorded(char* buffer, size_t capacity);

// Returns how many of count elements from first still hold the fill of fresh memory and were never written, neither
// by a checked kernel nor by cudaMemset or cudaMemcpy. *index becomes the index of the first such element.
size_t kw_unwritten(const void* first, size_t count, size_t element_bytes, size_t* index);

// Makes torch allocate CPU tensors in device memory for the rest of the process. Only the library KW_TORCH_MEMORY
// defines this function.
void kw_serve_torch(void);

// Get and set torch's current stream in this thread. If it is another stream, a launch on the default stream is a
// finding.
cudaStream_t kw_current_stream(void);
void kw_set_current_stream(cudaStream_t stream);

// Declares that host tensors may lie in device memory, so that host code may access it.
void kw_sides_unknown(void);

// Mark the begin and end of a call of forward. Within a call, work on other streams must wait for torch's current
// stream, and torch's current stream must wait for that work.
void kw_call_begins(void);
void kw_call_ends(void);

// Reports that host code ended without an exception. A CUDA error that it never queried becomes a finding.
void kw_host_returned(void);

// Sets the last error of a failed CUDA API call, and returns it.
cudaError_t kw_fail(const char* call, cudaError_t error);

// cudaFuncSetAttribute, given the text of its argument list. Limits are kept by kernel name, because a launch knows
// the callee's name as written and not its address.
cudaError_t kw_set_function_attribute(const char* text, enum cudaFuncAttribute attribute, int value);

// ---- Launches --------------------------------------------------------------------------------------

typedef struct kw_launch_request {
    size_t size;               // size of this struct in the caller's version of the header
    const char* name;          // the callee as written, with template arguments
    int line;                  // line of the launch
    int by_pointer;            // 1 if the callee is not the name of a __global__ function of the source
    dim3 grid;
    dim3 block;
    size_t dynamic_bytes;      // dynamic shared memory
    void (*entry)(void*);      // calls the kernel for one thread
    void* arguments;           // argument of entry; must live until kw_launch returns
    size_t argument_bytes;     // size of *arguments, which the kernel may read
    cudaStream_t stream;
    int cooperative;           // 1: all blocks run at once, or the launch is refused
    unsigned cluster[3];       // blocks per cluster and dimension; zeros: no clusters
} kw_launch_request;

// Runs the whole grid and returns 0. A launch that a GPU would refuse also returns 0, with a finding and the CUDA
// error set. Returns 1, with a message on standard error, if the caller was built for another version of this header.
int kw_launch(const kw_launch_request* request);

}  // extern "C"

#include "kw/runtime_device.h"
