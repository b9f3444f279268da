// Host code around kernels: memory of either side, copies, streams; and the approximate instructions.
#include <cuda_runtime.h>

__global__ void adds_one(float* x) { x[threadIdx.x] += 1; }

extern "C" float wrong_host_reads(const float* x) {
    return x[1];  // here: host_reads
}
extern "C" void wrong_host_writes(float* x) {
    x[1] = 2;  // here: host_writes
}
extern "C" void wrong_direction(float* x) {
    float one = 1;
    cudaMemcpy(x, &one, 4, cudaMemcpyDeviceToDevice);  // here: direction
    cudaGetLastError();
}
extern "C" void wrong_fill() {
    float one = 1;
    cudaMemset(&one, 0, 4);  // here: fill
    cudaGetLastError();
}
extern "C" void right_copies(float* x) {
    float one = 1, back = 0;
    cudaMemcpy(x, &one, 4, cudaMemcpyHostToDevice);
    cudaMemcpy(x + 1, x, 4, cudaMemcpyDeviceToDevice);
    cudaMemcpy(&back, x + 1, 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(&one, &back, 4, cudaMemcpyDefault);
    x = nullptr;
}

template <bool waits> float pinned(const float* x) {
    float* host = nullptr;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMallocHost((void**)&host, 4);
    *host = 0;
    cudaMemcpyAsync(host, x, 4, cudaMemcpyDeviceToHost, stream);
    if (waits) cudaStreamSynchronize(stream);
    const float seen = *host;  // here: pinned
    cudaDeviceSynchronize();
    cudaFreeHost(host);
    return seen;
}
extern "C" int right_pinned(const float* x) { return pinned<true>(x) > 1; }
extern "C" int wrong_pinned(const float* x) { return pinned<false>(x) > 1; }

// On a stream of its own, forked from the current one and joined to it, or not.
template <bool forks, bool joins> void aside(float* x, cudaStream_t current) {
    cudaStream_t stream;
    cudaEvent_t before, after;
    cudaStreamCreate(&stream);
    cudaEventCreate(&before);
    cudaEventCreate(&after);
    cudaEventRecord(before, current);
    if (forks) cudaStreamWaitEvent(stream, before, 0);
    adds_one<<<1, 8, 0, stream>>>(x);  // here: aside
    cudaEventRecord(after, stream);
    if (joins) cudaStreamWaitEvent(current, after, 0);
}
extern "C" void right_aside(float* x, cudaStream_t current) { aside<true, true>(x, current); }
extern "C" void wrong_no_fork(float* x, cudaStream_t current) { aside<false, true>(x, current); }
extern "C" void wrong_no_join(float* x, cudaStream_t current) { aside<true, false>(x, current); }
extern "C" void right_host_waits(float* x, cudaStream_t current) {
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaStreamSynchronize(current);
    adds_one<<<1, 8, 0, stream>>>(x);
    cudaStreamSynchronize(stream);
}

__global__ void approximates(const float* x, float* y, int n) {
    const int i = threadIdx.x;
    if (i >= n) return;
    y[i] = __tanhf(x[i]);
    y[n + i] = __sinf(x[i]);
    y[2 * n + i] = __cosf(x[i]);
    y[3 * n + i] = __expf(x[i]);
    y[4 * n + i] = __logf(x[i]);
}
extern "C" void run_approximates(const float* x, float* y, int n) { approximates<<<1, 512>>>(x, y, n); }

__global__ void unfused(const float* a, const float* b, const float* c, float* y, int n) {
    if (threadIdx.x < n) y[threadIdx.x] = __fadd_rn(__fmul_rn(a[threadIdx.x], b[threadIdx.x]), c[threadIdx.x]);
}
extern "C" void run_unfused(const float* a, const float* b, const float* c, float* y, int n) {
    unfused<<<1, 512>>>(a, b, c, y, n);
}
