// Blocks that wait for each other; test_waiting.py says what has to come of it. A line that a finding must
// name carries a marker comment.
#include <cooperative_groups.h>

__device__ int arrived, flags[4096];

__global__ void reset() {
    arrived = 0;
    for (int& flag : flags) flag = 0;
}

__device__ void barrier_of_blocks(int round) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&arrived, 1);
        while (*(volatile int*)&arrived < round * gridDim.x) {}
        __threadfence();
    }
    __syncthreads();
}
__global__ void rounds(float* cells, int count) {  // every block reads what all the others wrote
    for (int r = 1; r <= count; r++) {
        float sum = 0;
        for (int b = threadIdx.x; b < gridDim.x; b += blockDim.x) sum += __ldcg(cells + (r - 1) % 2 * gridDim.x + b);
        for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
        __shared__ float parts[32];
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int w = 1; w < blockDim.x / 32; w++) sum += parts[w];
            cells[r % 2 * gridDim.x + blockIdx.x] = sum / gridDim.x + 1;
        }
        barrier_of_blocks(r);
    }
}
extern "C" void run_rounds(float* cells, int blocks, int threads, int count) {
    reset<<<1, 1>>>();
    rounds<<<blocks, threads>>>(cells, count);
}

// The sum over all blocks of what each counts, then how many blocks saw the right sum: three barriers.
__global__ void agree(unsigned* cells) {
    if (blockIdx.x == 0 && threadIdx.x == 0) cells[0] = cells[1] = 0;
    cooperative_groups::this_grid().sync();
    if (threadIdx.x == 0) atomicAdd(&cells[0], blockIdx.x + 1);
    cooperative_groups::this_grid().sync();
    const unsigned sum = gridDim.x * (gridDim.x + 1) / 2;
    if (threadIdx.x == blockDim.x - 1 && *(volatile unsigned*)cells == sum) atomicAdd(&cells[1], 1);
    cooperative_groups::this_grid().sync();
    if (threadIdx.x == 0 && *(volatile unsigned*)(cells + 1) != gridDim.x) cells[2 + blockIdx.x] = 1;
}
extern "C" int run_agree(unsigned* cells, int threads) {  // as many blocks as the device can hold
    int each = 0, multiprocessors = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, agree, threads, 0);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    void* arguments[] = {&cells};
    cudaLaunchCooperativeKernel((void*)agree, dim3(each * multiprocessors), dim3(threads), arguments, 0, nullptr);
    return each * multiprocessors;
}

__global__ void backwards(int* order) {  // each block waits for the next one: all have to be there at once
    if (threadIdx.x == 0 && blockIdx.x + 1 < gridDim.x)
        while (atomicAdd(&flags[blockIdx.x + 1], 0) == 0) {}
    __syncthreads();
    if (threadIdx.x == 0) {
        order[blockIdx.x] = atomicAdd(&arrived, 1);
        __threadfence();
        atomicExch(&flags[blockIdx.x], 1);
    }
}
extern "C" void run_backwards(int* order, int blocks) {
    reset<<<1, 1>>>();
    backwards<<<blocks, 64>>>(order);
}

__global__ void everyone_polls(int* seen) {  // all threads of all blocks wait for the last block
    if (blockIdx.x == gridDim.x - 1) {
        __syncthreads();
        if (threadIdx.x == 0) { __threadfence(); atomicExch(&flags[0], 7); }
    } else {
        while (__ldcg(&flags[0]) == 0) {}
    }
    seen[blockIdx.x * blockDim.x + threadIdx.x] = __ldcg(&flags[0]);
}
extern "C" void run_everyone(int* seen, int blocks) {
    reset<<<1, 1>>>();
    everyone_polls<<<blocks, 96>>>(seen);
}

__global__ void consumers_and_producer(float* y) {  // within one block: warps wait for a warp
    volatile __shared__ int stage;
    __shared__ float value;
    if (threadIdx.x == 0) stage = 0;
    __syncthreads();
    if (threadIdx.x >= 96) {
        if (threadIdx.x == 96) { value = 3; __threadfence_block(); stage = 1; }
    } else {
        while (stage == 0) {}
        __threadfence_block();
        y[threadIdx.x] = value;
    }
}
extern "C" void run_stages(float* y) { consumers_and_producer<<<1, 128>>>(y); }

__global__ void guarded_sum(const float* x, float* total) {  // a lock that every block takes
    if (threadIdx.x == 0) {
        while (atomicCAS(&flags[1], 0, 1) != 0) {}
        __threadfence();
        *(volatile float*)total = *(volatile float*)total + x[blockIdx.x];
        __threadfence();
        atomicExch(&flags[1], 0);
    }
}
extern "C" void run_lock(const float* x, float* total, int blocks) {
    reset<<<1, 1>>>();
    guarded_sum<<<blocks, 32>>>(x, total);
}

__device__ bool have_come(int first, int end) {  // asks all of them, whatever it has seen
    bool all = true;
    for (int i = first; i < end; i++) all &= __ldcg(&flags[i]) != 0;  // here: one_never_comes
    return all;
}
__global__ void first_asks_all(int* seen) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        while (!have_come(1, gridDim.x)) {}
        for (int i = 1; i < gridDim.x; i++) seen[i] = flags[i];
    }
    __syncthreads();
    if (blockIdx.x != 0 && threadIdx.x == blockDim.x - 1) atomicExch(&flags[blockIdx.x], blockIdx.x);
}
extern "C" void run_asks_all(int* seen, int blocks) {
    reset<<<1, 1>>>();
    first_asks_all<<<blocks, 64>>>(seen);
}

__global__ void one_too_few() {
    if (threadIdx.x == 0) {
        atomicAdd(&arrived, 1);
        while (atomicAdd(&arrived, 0) < gridDim.x + 1) {}  // here: one_too_few
    }
    __syncthreads();
}
extern "C" void fault_too_few(float*) {
    reset<<<1, 1>>>();
    one_too_few<<<20, 64>>>();
}
__global__ void compare_and_wait() {
    if (threadIdx.x == 0) {
        while (atomicCAS(&flags[blockIdx.x], 1, 2) != 1) {}  // here: compare_and_wait
    }
}
extern "C" void fault_compare(float*) {
    reset<<<1, 1>>>();
    compare_and_wait<<<12, 64>>>();
}
__global__ void one_never_comes() {
    if (threadIdx.x == 0) atomicExch(&flags[2 * blockIdx.x], 1);
    if (threadIdx.x == 0) while (!have_come(0, 3)) {}
}
extern "C" void fault_several(float*) {
    reset<<<1, 1>>>();
    one_never_comes<<<2, 64>>>();
}
__global__ void dies_while_others_wait(float* out) {
    if (blockIdx.x == gridDim.x - 1) out[threadIdx.x] = 1;  // here: dies
    if (threadIdx.x == 0) while (*(volatile int*)&flags[0] == 0) {}
    __syncthreads();
}
extern "C" void fault_dies(float*) {
    reset<<<1, 1>>>();
    dies_while_others_wait<<<40, 64>>>(nullptr);
}

__global__ void first_waits_for_last(int* seen) {  // no barrier comes before: the last thread has not begun
    __shared__ int ticket;
    if (threadIdx.x == blockDim.x - 1) atomicExch(&ticket, 5);
    while (atomicAdd(&ticket, 0) != 5) {}
    seen[threadIdx.x] = ticket;
}
extern "C" void run_last_first(int* seen) { first_waits_for_last<<<1, 200>>>(seen); }
