// Checks and times softmax and logsumexp over rows, forward and backward, on the GPU at hand. Needs nvcc and a GPU:
//
//     nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a -o rows_bench benchmarks/kernels/rows_bench.cu
//     ./rows_bench
//
// A run flushes L2 and is timed with events; printed are the 20th, 50th and 80th percentile, the bytes that have to be
// moved (of the forward one read, and for softmax one write; of the backward every operand once) over the median, and
// the largest error against double arithmetic over 64 of the rows, relative to the size of what is compared. A result
// that is NaN or was not written counts as infinitely wrong.
#include <cmath>
#include <cstring>

#include "../../agent/kernels/logsumexp/csrc/launch.cuh"
#include "../../agent/kernels/softmax/csrc/launch.cuh"
#include "timing.cuh"

using namespace kernelwright;
using namespace kernelwright::timing;

namespace {

constexpr int kSampled = 64;
constexpr int kCheckers = 256;

struct Shape {
    int64_t rows, length, dtype;
    int64_t bytes() const { return rows * length * (dtype == kFloat32 ? 4 : 2); }
};

const Shape kShapes[] = {
    {4096, 16384, kFloat32}, {4096, 16384, kFloat16},  {4096, 16384, kBFloat16},  {4096, 4096, kFloat32},
    {65536, 1024, kFloat32}, {32768, 512, kFloat32},   {262144, 128, kFloat32},   {4096, 32000, kFloat32},
    {4096, 32000, kBFloat16}, {1024, 128256, kFloat32}, {1024, 128256, kBFloat16}, {4096, 16383, kFloat32},
};

struct Tensors {
    void *x, *y, *grad, *dx, *flush;
    float* exact;
    unsigned long long* error;  // bits of a double
};

template <typename T>
__global__ void fill(T* values, int64_t count, uint64_t seed, float scale) {
    const int64_t step = int64_t{gridDim.x} * blockDim.x;
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
        values[i] = from_float<T>(drawn(i, seed) * scale);
    }
}

// What is smaller than the least normal half is compared with that.
__device__ void note(unsigned long long* error, double ours, double wanted, double scale) {
    const double off = fabs(ours - wanted) / fmax(fabs(scale), 6e-5);
    atomicMax(error, static_cast<unsigned long long>(__double_as_longlong(isnan(off) ? INFINITY : off)));
}

// All values lie within some tens of 0, so that exp needs no maximum in double.
template <typename T>
__global__ void check_forward(const T* x, const T* y, const float* exact, int64_t rows, int64_t length, unsigned long long* error) {
    const int64_t row = blockIdx.x * rows / gridDim.x;
    double mine = 0.0;
    for (int64_t i = threadIdx.x; i < length; i += kCheckers) mine += exp(double(to_float(x[row * length + i])));
    const double sum = block_total(mine);
    if (exact != nullptr) return note(error, exact[row], log(sum), log(sum));
    for (int64_t i = threadIdx.x; i < length; i += kCheckers) {
        const double wanted = exp(double(to_float(x[row * length + i]))) / sum;
        note(error, to_float(y[row * length + i]), wanted, wanted);
    }
}

// `grad` is of the row's elements, or with `exact` of the row's result.
template <typename T>
__global__ void check_backward(
    const T* grad, const T* saved, const float* exact, const T* dx, int64_t rows, int64_t length,
    unsigned long long* error) {
    const int64_t row = blockIdx.x * rows / gridDim.x;
    grad += exact == nullptr ? row * length : row;
    saved += row * length;
    double mine = 0.0;
    for (int64_t i = threadIdx.x; exact == nullptr && i < length; i += kCheckers) {
        mine += double(to_float(grad[i])) * to_float(saved[i]);
    }
    const double sum = block_total(mine);
    for (int64_t i = threadIdx.x; i < length; i += kCheckers) {
        const double value = to_float(saved[i]);
        const double wanted = exact == nullptr ? (to_float(grad[i]) - sum) * value
                                               : to_float(grad[0]) * exp(value - double(exact[row]));
        const double scale = exact == nullptr ? (fabs(to_float(grad[i])) + fabs(sum)) * value : fabs(wanted);
        note(error, to_float(dx[row * length + i]), wanted, scale);
    }
}

template <typename Call, typename Check>
void measure(const char* name, const Shape& s, double bytes, const Tensors& t, Call call, Check check) {
    CHECK(cudaMemset(t.error, 0, sizeof *t.error));
    CHECK(call());
    check();
    double error;
    CHECK(cudaMemcpy(&error, t.error, sizeof error, cudaMemcpyDeviceToHost));
    const Times times = timed(call, t.flush);
    const char* const dtypes[] = {"f32", "f16", "b16"};
    std::printf("[%6ld,%6ld] %s %-18s %8.4f %8.4f %8.4f ms %6.3f TB/s  error %.1e\n", long(s.rows), long(s.length),
                dtypes[s.dtype], name, times.p20, times.p50, times.p80, bytes / times.p50 * 1e-9, error);
    std::fflush(stdout);
}

template <typename T>
void measure_all(const Shape& s, const Tensors& t) {
    const int64_t count = s.rows * s.length;
    const double bytes = double(s.bytes());
    const auto *x = static_cast<T*>(t.x), *y = static_cast<T*>(t.y), *grad = static_cast<T*>(t.grad), *dx = static_cast<T*>(t.dx);
    fill<T><<<2048, kCheckers>>>(static_cast<T*>(t.x), count, 1, 3.0f);
    fill<T><<<2048, kCheckers>>>(static_cast<T*>(t.grad), count, 2, 1.0f);
    measure("copy", s, 2 * bytes, t,
            [&] { return cudaMemcpyAsync(t.dx, t.x, s.bytes(), cudaMemcpyDeviceToDevice, nullptr); }, [] {});
    CHECK(cudaMemset(t.y, 0xff, s.bytes()));
    CHECK(cudaMemset(t.dx, 0xff, s.bytes()));
    measure("softmax", s, 2 * bytes, t,
            [&] { return softmax::forward({t.x, t.y, s.rows, s.length, 1, s.dtype, nullptr, 0}); },
            [&] { check_forward<T><<<kSampled, kCheckers>>>(x, y, nullptr, s.rows, s.length, t.error); });
    measure("softmax backward", s, 3 * bytes, t,
            [&] { return softmax::backward({t.grad, t.y, t.dx, s.rows, s.length, 1, s.dtype, nullptr, 0}); },
            [&] { check_backward<T><<<kSampled, kCheckers>>>(grad, y, nullptr, dx, s.rows, s.length, t.error); });
    measure("logsumexp", s, bytes, t,
            [&] { return logsumexp::forward({t.x, t.y, t.exact, s.rows, s.length, 1, s.dtype, nullptr, 0}); },
            [&] { check_forward<T><<<kSampled, kCheckers>>>(x, nullptr, t.exact, s.rows, s.length, t.error); });
    measure("logsumexp backward", s, 2 * bytes, t,
            [&] { return logsumexp::backward({t.grad, t.x, t.exact, t.dx, s.rows, s.length, 1, s.dtype, nullptr, 0}); },
            [&] { check_backward<T><<<kSampled, kCheckers>>>(grad, x, t.exact, dx, s.rows, s.length, t.error); });
}

}  // namespace

int main() {
    int64_t bytes = 0, rows = 0;
    for (const Shape& s : kShapes) {
        bytes = std::max(bytes, s.bytes());
        rows = std::max(rows, s.rows);
    }
    Tensors t = {allocated(bytes), allocated(bytes), allocated(bytes), allocated(bytes), allocated(kFlushBytes)};
    t.exact = static_cast<float*>(allocated(rows * 4));
    t.error = static_cast<unsigned long long*>(allocated(sizeof *t.error));
    for (const Shape& s : kShapes) {
        with_dtype(s.dtype, [&](auto element) {
            measure_all<decltype(element)>(s, t);
            return cudaSuccess;
        });
    }
    return 0;
}
