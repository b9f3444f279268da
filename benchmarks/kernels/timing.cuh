// What the benches share: checked calls, times with a cold L2, random values, a process for each thing measured.
#pragma once

#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define CHECK(call)                                                                             \
    do {                                                                                        \
        const cudaError_t error_ = (call);                                                      \
        if (error_ != cudaSuccess) {                                                            \
            std::printf("  FAILED %s: %s (line %d)\n", #call, cudaGetErrorString(error_), __LINE__); \
            std::exit(1);                                                                       \
        }                                                                                       \
    } while (0)

namespace kernelwright::timing {

constexpr int kRuns = 15;
constexpr double kSecondsToHang = 20.0;
constexpr size_t kFlushBytes = size_t{512} << 20;

// Value `index` of stream `seed`, uniform in [-1, 1).
__device__ inline float drawn(uint64_t index, uint64_t seed) {
    uint64_t z = (index + seed * 0x9E3779B97F4A7C15ull) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 31)) * 0x94D049BB133111EBull;
    z ^= z >> 29;
    return static_cast<float>(static_cast<uint32_t>(z >> 32)) * 4.6566128730773926e-10f - 1.0f;
}

// The sum over a block of a power of two of threads, in every one of them.
__device__ inline double block_total(double mine) {
    __shared__ double of[1024];
    of[threadIdx.x] = mine;
    __syncthreads();
    for (int half = int(blockDim.x) / 2; half > 0; half /= 2) {
        if (int(threadIdx.x) < half) of[threadIdx.x] += of[threadIdx.x + half];
        __syncthreads();
    }
    const double total = of[0];
    __syncthreads();
    return total;
}

inline void* allocated(int64_t bytes) {
    void* memory = nullptr;
    CHECK(cudaMalloc(&memory, std::max<int64_t>(bytes, 256)));
    return memory;
}

// Ends the process where the device does not answer: a design whose blocks wait for ever.
inline void wait_or_end(cudaEvent_t event) {
    for (double waited = 0.0; cudaEventQuery(event) == cudaErrorNotReady; waited += 1e-4) {
        usleep(100);
        if (waited > kSecondsToHang) {
            std::printf("  HUNG\n");
            std::fflush(stdout);
            _exit(1);
        }
    }
    CHECK(cudaEventSynchronize(event));
}

struct Times {
    double p20, p50, p80;
};

template <typename Call>
Times timed(Call call, void* flush) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    std::vector<double> times;
    for (int run = 0; run < kRuns + 2; ++run) {
        CHECK(cudaMemsetAsync(flush, run, kFlushBytes, nullptr));
        CHECK(cudaEventRecord(begin, nullptr));
        CHECK(call());
        CHECK(cudaEventRecord(end, nullptr));
        wait_or_end(end);
        float milliseconds = 0.0f;
        CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
        if (run >= 2) times.push_back(milliseconds);
    }
    std::sort(times.begin(), times.end());
    return {times[kRuns / 5], times[kRuns / 2], times[kRuns * 4 / 5]};
}

// A process for each design: one that faults or hangs costs only itself.
inline void run_apart(const char* program, const std::string& name) {
    const pid_t child = fork();
    if (child == 0) {
        execl(program, program, name.c_str(), static_cast<char*>(nullptr));
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) std::printf("%s ended with status %d\n", name.c_str(), status);
    std::fflush(stdout);
}

}  // namespace kernelwright::timing
