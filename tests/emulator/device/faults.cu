// Kernels that are wrong in one way each; test_faults.py checks what is said about them. A line that a
// finding must name carries a marker comment.
#define FULL 0xffffffffu

__global__ void fine(float* out) { out[threadIdx.x] = 1; }
template <int N>
__global__ void wants_dynamic(float* out) {
    extern __shared__ float s[];
    s[threadIdx.x] = 1;
    out[threadIdx.x] = s[threadIdx.x];
}

extern "C" void fault_threads(float* out) { fine<<<1, dim3(33, 33)>>>(out); }  // here: fault_threads
extern "C" void fault_block_z(float* out) { fine<<<1, dim3(1, 1, 65)>>>(out); }
extern "C" void fault_block_overflow(float* out) { fine<<<1, dim3(65536, 65536, 1)>>>(out); }
extern "C" void fault_grid_y(float* out) { fine<<<dim3(1, 70000), 32>>>(out); }
extern "C" void fault_grid_negative(float* out) { fine<<<-1, 32>>>(out); }
extern "C" void fault_empty(float* out) { fine<<<0, 32>>>(out); }
extern "C" void fault_dynamic(float* out) {
    wants_dynamic<4>
        <<<1, 32, 50000>>>(out);  // the launch begins one line above
}
extern "C" void fault_dynamic_too_much(float* out) {
    cudaFuncSetAttribute(wants_dynamic<4>, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024);
    wants_dynamic<4><<<1, 32, 300000>>>(out);
}
extern "C" int fault_attribute(float*) {
    return cudaFuncSetAttribute(wants_dynamic<4>, cudaFuncAttributeMaxDynamicSharedMemorySize, 300000);
}
extern "C" void fault_other_kernels_attribute(float* out) {
    cudaFuncSetAttribute((const void*)fine, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024);
    wants_dynamic<8><<<1, 32, 60000>>>(out);
}

__global__ void null_write(float* out) {
    if (blockIdx.x == 2 && threadIdx.x == 5) out[threadIdx.x] = 1;
}
extern "C" void fault_null(float*) { null_write<<<4, 32>>>(nullptr); }
__global__ void wild_write(float* out) {
    if (threadIdx.x == 1) out[1ll << 33] = 1;
    __syncthreads();
}
extern "C" void fault_wild(float* out) { wild_write<<<3000, 32>>>(out); }
typedef float Vector __attribute__((vector_size(16)));  // what the optimiser makes of a float4
__global__ void misaligned(float* out) { *(Vector*)(out + 1) = Vector{1, 2, 3, out[0]}; }
extern "C" void fault_misaligned(float* out) { misaligned<<<1, 1>>>(out); }
__global__ void divide(int* out, int by) { out[threadIdx.x] = 7 / (by + (int)threadIdx.x); }
extern "C" void fault_divide(float* out) { divide<<<1, 4>>>((int*)out, -2); }
__device__ int deep(int n, volatile char* outer) {
    volatile char frame[4096];
    frame[0] = outer[0];
    return n == 0 ? frame[0] : deep(n - 1, frame) + frame[0];
}
__global__ void recursive(int* out) {
    volatile char start[1] = {1};
    out[0] = deep(1 << 20, start);
}
extern "C" void fault_stack(float* out) { recursive<<<1, 1>>>((int*)out); }
__global__ void asserting(float* out) {
    assert(threadIdx.x < 3 && "three at most");  // here: fault_assert
    out[threadIdx.x] = 1;
}
extern "C" void fault_assert(float* out) { asserting<<<1, 8>>>(out); }
__global__ void trapping() { __trap(); }  // here: fault_trap
extern "C" void fault_trap(float*) { trapping<<<1, 1>>>(); }

__global__ void divergent(float* out) {
    if (threadIdx.x < 16) {
        __syncthreads();  // here: fault_barrier
    } else {
        __syncthreads();  // here: fault_barrier_other
    }
    out[threadIdx.x] = 1;
}
extern "C" void fault_barrier(float* out) { divergent<<<2, 32>>>(out); }
__global__ void early_return(float* out, int n) {
    if (threadIdx.x >= n) return;
    __syncthreads();  // here: fault_exit
    out[threadIdx.x] = 1;
}
extern "C" void fault_exit(float* out) { early_return<<<1, 64>>>(out, 40); }
__global__ void partial_shuffle(float* out) {
    float v = threadIdx.x;
    if (threadIdx.x < 16) v += __shfl_xor_sync(FULL, v, 8);  // here: fault_divergent_shuffle
    __syncthreads();
    out[threadIdx.x] = v;
}
extern "C" void fault_divergent_shuffle(float* out) { partial_shuffle<<<1, 32>>>(out); }
__global__ void returned_lanes(float* out) {
    if (threadIdx.x >= 20) return;
    out[threadIdx.x] = __shfl_down_sync(FULL, 1.0f, 4);  // here: fault_returned_lanes
}
extern "C" void fault_returned_lanes(float* out) { returned_lanes<<<1, 32>>>(out); }
__global__ void excluded(float* out) { out[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.0f, 1); }  // here: fault_excluded
extern "C" void fault_excluded(float* out) { excluded<<<1, 32>>>(out); }
__global__ void too_much_static(float* out) {
    __shared__ float a[8192];
    __shared__ float b[8192];  // here: fault_static
    a[threadIdx.x] = b[threadIdx.x] = 1;
    out[threadIdx.x] = a[threadIdx.x];
}
extern "C" void fault_static(float* out) { too_much_static<<<4, 32>>>(out); }
__global__ void static_and_dynamic(float* out) {
    __shared__ float a[8192];  // here: fault_static_and_dynamic
    extern __shared__ float s[];
    a[threadIdx.x] = s[threadIdx.x] = 1;
    out[threadIdx.x] = a[threadIdx.x];
}
extern "C" void fault_static_and_dynamic(float* out) { static_and_dynamic<<<1, 32, 32768>>>(out); }
__global__ void asks_for_both(float* out) {
    __shared__ float a[8192];
    extern __shared__ float b[];
    a[threadIdx.x] = b[threadIdx.x] = 1;
    out[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
}
extern "C" void fault_none_of_both_kinds(float* out) {
    cudaFuncSetAttribute(asks_for_both, cudaFuncAttributeMaxDynamicSharedMemorySize, 32768);
    asks_for_both<<<1, 32, 32768>>>(out);
}
extern "C" void fault_both_beyond_the_device(float* out) {
    cudaFuncSetAttribute(asks_for_both, cudaFuncAttributeMaxDynamicSharedMemorySize, 204800);
    asks_for_both<<<1, 32, 204800>>>(out);
}
__global__ void waits_for_ever(float* out) {
    __shared__ int lock;
    if (threadIdx.x == 0) lock = 1;  // nobody ever opens it
    __syncthreads();
    if (threadIdx.x == 3) {
        while (atomicCAS(&lock, 0, 1) != 0) {}  // here: fault_deadlock
    }
    __syncthreads();
    out[threadIdx.x] = 1;
}
extern "C" void fault_deadlock(float* out) { waits_for_ever<<<64, 256>>>(out); }
__global__ void hands_over(float* out) {  // a thread polls for what a later thread of its block writes
    __shared__ int turn;
    if (threadIdx.x == 0) turn = 0;
    __syncthreads();
    while (atomicCAS(&turn, (int)threadIdx.x ^ 31, (int)(threadIdx.x ^ 31) + 1) != (int)(threadIdx.x ^ 31)) {}
    out[threadIdx.x] = turn;
}
extern "C" void fine_spinning(float* out) { hands_over<<<1, 32>>>(out); }

extern "C" int copy_beyond(float* out) {
    void* device = nullptr;
    cudaMalloc(&device, 100);
    const int error = cudaMemcpy(device, out, 101, cudaMemcpyHostToDevice);
    cudaFree(device);
    return error;
}
extern "C" int copy_from_null(float* out) { return cudaMemcpy(out, nullptr, 8, cudaMemcpyDeviceToHost); }
extern "C" int copy_after_free(float* out) {
    float* device = nullptr;
    cudaMalloc(&device, 256);
    cudaFree(device);
    return cudaMemset(device, 0, 256) + 1000 * (cudaFree(device) != 0) + 0 * (int)out[0];
}
extern "C" int copy_direction(float* out) { return cudaMemcpy(out, out, 4, (cudaMemcpyKind)9); }
extern "C" int malloc_too_much(float*) {
    void* device;
    return cudaMalloc(&device, 1ull << 60);
}
