// The C interface of libkw_runtime: CUDA's execution model on a CPU.
//
// A kernel launch runs every block of the grid on a few OS threads; the threads of one block are fibers
// of one OS thread that run one at a time and change over at barriers and warp operations. This header
// is all that device code (kw/device.h) and host code (slim torch headers, ctypes) know of the runtime.
// The CUDA runtime API itself (cudaMalloc, cudaGetLastError, ...) is declared by NVIDIA's
// cuda_runtime_api.h and defined by the same library.
//
// It does not emulate timing, caches, clusters or streams that overlap: every call is synchronous.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <vector_types.h>

#define KW_TORCH_MEMORY "libkw_torch.so"  // the library for kw_serve_torch, beside the runtime's

extern "C" {

enum {
    KW_FRESH_BYTE = 0xFF,         // what fresh device memory holds, unless kw_draw chooses something else
    KW_LARGEST_LITERAL = 8 << 20, // bytes of host data that a record takes in; of more it tells the size alone
    KW_SAMPLED_BYTES = 1 << 20,   // from here on, memory of a sampled call is reserved and not committed
    KW_UNLOCATED_LINE = 1000000,  // lines from here on belong to no line of the candidate's file
    KW_RUNNING_BYTES = 512,       // of the file of kw_tell_running
    KW_SHARED_LIMIT_ATTRIBUTE = 8,
    KW_HOST_TO_DEVICE = 1
};
#define KW_LARGEST_ARENA 0x10000000000  // bytes of device memory that can be reserved: 1 TB

#ifdef __cplusplus
static_assert(KW_SHARED_LIMIT_ATTRIBUTE == cudaFuncAttributeMaxDynamicSharedMemorySize, "CUDA's own number");
static_assert(KW_HOST_TO_DEVICE == cudaMemcpyHostToDevice, "CUDA's own number");
#endif

// ---- Host side -------------------------------------------------------------------------------------

// Sets how many OS threads run blocks (clamped to 1..8; 2 if never called). Idempotent.
void kw_init(int workers);

// Device memory: 512-byte aligned, every byte 0xFF (so that floats that nobody wrote are NaN) unless kw_draw chose
// something else, with unused addresses on both sides. Null when the arena is full. kw_free(nullptr) does nothing; a pointer that
// kw_alloc did not return is ignored. kw_alloc_unfilled is for torch's allocator: it leaves in the memory what was
// there, and no record tells of it.
void* kw_alloc(size_t bytes);
void* kw_alloc_unfilled(size_t bytes);
void kw_free(void* pointer);

// Whether the address lies in the range of device memory, allocated or not.
int kw_on_device(const void* pointer);

// Bytes of device memory that are allocated.
size_t kw_allocated(void);

// Kernel launches that were accepted so far, and their distinct kernel names, newline-separated.
// kw_launch_names writes at most capacity bytes including the final NUL; it returns the length of the
// whole text without the NUL, so that a short buffer can be seen and enlarged. kw_findings likewise.
long kw_launch_count(void);
size_t kw_launch_names(char* buffer, size_t capacity);

// The distinct kernels that were launched since kw_sample was last called, in the order of their first launch, as a
// JSON array of objects: kernel, grid, block and shared, the bytes of dynamic shared memory. A kernel is the
// signature that its compiler gives it, with template arguments; of one that cannot say it, the callee as
// written. Written as kw_findings writes.
size_t kw_kernels(char* buffer, size_t capacity);

// From here on the file at path, which lives as long as the process, holds "LINE NAME" of the kernel that runs.
void kw_tell_running(const char* path);

// What went wrong, as a JSON array of objects: kind, message, kernel (or null), line (or null), block
// and thread ([x, y, z] or null), count, severity ("error" or "warning"); place and other: null, or library
// and offset of the code that did it and of the other side of a race, where line is not known yet. A
// message says "{other}" where the line of the latter belongs. One entry for each kind, place and kernel,
// in the order of first occurrence.
size_t kw_findings(char* buffer, size_t capacity);
void kw_clear_findings(void);

// Checked execution, for the launches that follow (off at first): every access of device code that was
// compiled for it is checked for bounds, races, and reads of shared memory that nobody wrote.
void kw_check(int on);

// What CUDA leaves open, for what follows: what fresh memory holds (all of 0xFF; floats of 1e4 and more in every
// format; the same with a minus; an integer below 16; what was in the memory when it was freed), and in which order
// blocks, warps and lanes begin. Interleaved: shuffled, and threads let others go first before some of their stores
// to global memory, in code that was compiled for checks.
enum { KW_MEMORY_ONES, KW_MEMORY_HUGE, KW_MEMORY_HUGE_NEGATIVE, KW_MEMORY_LEAST, KW_MEMORY_USED };
enum { KW_ORDER_FORWARD, KW_ORDER_REVERSE, KW_ORDER_SHUFFLED, KW_ORDER_INTERLEAVED };
void kw_draw(int memory, int order, uint64_t seed);

// Who writes to global memory is noted (off at first) in checked launches, which count from 1 from here on. kw_writers
// returns how many of the words of 4 bytes that [first, first + bytes) touches the last launch wrote, and fills one cell
// for each word, unless cells is null or nothing is known. A cell, from the upper end: launch (12 bits, 0: nobody), block
// (24), thread (10), how many stores to that allocation the thread made before (14), 2 unused, whether another thread
// wrote it in the same launch, whether the last write was atomic.
void kw_note_writers(int on);
size_t kw_writers(const void* first, size_t bytes, uint64_t* cells);

// Locks the switches (kw_init, kw_check, kw_note_writers, kw_draw, kw_sample, kw_record, kw_record_note, kw_clear_findings,
// kw_tell_running, kw_host_returned, kw_call_begins, kw_call_ends): from the first call of kw_lock on they do nothing but leave a finding, save
// in a thread that has called kw_unlock with the same key, until it calls kw_lock again.
void kw_lock(uint64_t key);
void kw_unlock(uint64_t key);

// From here on, until it is turned off, launches run at real sizes on reserved memory: a sample of their blocks,
// checked for addresses alone. Memory of a MB and more holds zeros, or numbers. Pending errors are forgotten.
// The notes say, one a line, which kernels ran in part; they are written as kw_findings writes. Host only: launches
// are looked at and noted, and no block runs.
enum { KW_SAMPLE_OFF, KW_SAMPLE_ZEROS, KW_SAMPLE_NUMBERS, KW_SAMPLE_HOST_ONLY };
void kw_sample(int mode);
size_t kw_sample_notes(char* buffer, size_t capacity);

// Memory outside the arena that kernels may use, or the name of memory inside it for messages: "float32
// tensor [2, 3]". It holds until kw_unregister, kw_free, or other memory takes the place. 1 when the
// memory was not known before.
int kw_register(const void* first, size_t bytes, const char* label);
void kw_unregister(const void* first);

// A record of everything done to device memory (off at first), from which another process can repeat the launches
// without this one's host code: one JSON object per line, documented in torch_shim/recording.py. kw_record_settle
// notes what host code wrote directly; call it before memory is changed in a way that the runtime does not see,
// and kw_record_note with a line that says what was done afterwards.
void kw_record(int on);
void kw_record_settle(void);
void kw_record_note(const char* line);
size_t kw_recorded(char* buffer, size_t capacity);

// How many of count elements from first still hold what fresh device memory holds and were never written
// by a kernel while checks were on (nor by cudaMemset or cudaMemcpy); *index becomes that of the first one.
size_t kw_unwritten(const void* first, size_t count, size_t element_bytes, size_t* index);

// For KW_TORCH_MEMORY alone: torch's CPU tensors are made in device memory, for the rest of the process.
void kw_serve_torch(void);

// torch's current stream in this thread: a launch on the default one where it is another is a finding.
cudaStream_t kw_current_stream(void);
void kw_set_current_stream(cudaStream_t stream);

// From here on tensors of the host may lie in device memory, and host code may use it.
void kw_sides_unknown(void);

// Around a call of forward: work on other streams has to wait for torch's current one, and that for them.
void kw_call_begins(void);
void kw_call_ends(void);

// Tells that host code has ended without an exception: an error that it never asked for is a finding.
void kw_host_returned(void);

// Leaves the error of a call of CUDA's API behind, and returns it.
cudaError_t kw_fail(const char* call, cudaError_t error);

// cudaFuncSetAttribute with the text of its argument list: limits are kept by kernel name, because
// a launch knows the name it was written with and not the address.
cudaError_t kw_set_function_attribute(const char* text, enum cudaFuncAttribute attribute, int value);

// ---- Launches --------------------------------------------------------------------------------------

typedef struct kw_launch_request {
    size_t size;               // of this struct, as the caller knows it
    const char* name;          // the callee as written, with template arguments
    int line;                  // of the launch
    int by_pointer;            // 1 when the callee is no __global__ function of the same source
    dim3 grid;
    dim3 block;
    size_t dynamic_bytes;      // dynamic shared memory
    void (*entry)(void*);      // calls the kernel for one thread
    void* arguments;           // what entry gets; lives until kw_launch returns
    size_t argument_bytes;     // its size; the kernel may read it
    cudaStream_t stream;
    int cooperative;           // 1: its blocks are all there at once, or the launch is refused
    unsigned cluster[3];       // blocks of a cluster; zeros: none
} kw_launch_request;

// Runs the whole grid, or reports why a GPU would not and sets the CUDA error; 0 either way. 1, with words on
// standard error and nothing done, where the request is of another size than this runtime's: the caller was
// built for, or mirrors, another version of this header, which is no fault of the kernel's.
int kw_launch(const kw_launch_request* request);

}  // extern "C"

#include "kw/runtime_device.h"
