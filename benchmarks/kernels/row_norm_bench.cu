// Checks and times LayerNorm and RMSNorm, forward and backward, on the GPU at hand. Needs nvcc and a GPU, nothing else:
//
//     nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a -o row_norm_bench benchmarks/kernels/row_norm_bench.cu
//     ./row_norm_bench
//
// Checked against double arithmetic on the GPU by plain kernels of this file, on outputs that were poisoned before:
// 256 rows of y and dx, 64 columns of dweight and dbias. A run flushes L2 and is timed with events; the backward gives
// every gradient. Beside it stands what the bytes that have to be moved take at the least: a copy for the forward, a sum
// of two tensors for the backward.
#include <cmath>
#include <cstring>

#include "../../agent/kernels/layer_norm/csrc/launch.cuh"
#include "../../agent/kernels/rms_norm/csrc/launch.cuh"
#include "timing.cuh"

using namespace kernelwright;
using namespace kernelwright::timing;

namespace {

constexpr double kEps = 1e-5;
constexpr int kThreads = 256;
constexpr int kRowsChecked = 256;
constexpr int kColumnsChecked = 64;

struct Shape {
    int64_t rows, length;
    bool centred;
    int64_t dtype;
    int64_t elements() const { return rows * length; }
    int64_t bytes() const { return elements() * (dtype == kFloat32 ? 4 : 2); }
};

const Shape kShapes[] = {
    {32768, 4096, true, kFloat32},    // the target of LayerNorm
    {16384, 4096, false, kFloat32},   // of RMSNorm
    {32768, 4096, true, kBFloat16},   //
    {16384, 4096, false, kBFloat16},  //
    {65536, 1024, true, kFloat32},    //
    {65536, 1024, true, kBFloat16},   //
    {32768, 768, true, kFloat32},     //
    {262144, 128, true, kFloat32},    // short
    {8192, 8192, true, kFloat32},     // the longest rows that the backward reads once
    {4096, 16384, true, kFloat32},    // and the forward
    {1024, 50000, true, kFloat32},    // longer than either holds
    {16384, 4095, true, kFloat32},    // not in vectors
    {2, 4096, true, kFloat32},        // few
    {1, 333, true, kBFloat16},        // one
};

struct Tensors {
    void *x, *dy, *y, *weight, *bias, *dweight, *dbias, *flush, *workspace;
    float *mean, *rstd;
    double* error;  // the largest of the checked rows, then of the checked columns
};

Tensors tensors() {
    int64_t bytes = 0, rows = 0, length = 0;
    for (const Shape& s : kShapes) {
        bytes = std::max(bytes, s.bytes());
        rows = std::max(rows, s.rows);
        length = std::max(length, s.length);
    }
    Tensors t = {};
    for (void** large : {&t.x, &t.dy, &t.y}) *large = allocated(bytes);
    for (void** parameter : {&t.weight, &t.bias, &t.dweight, &t.dbias}) *parameter = allocated(length * 4);
    for (float** statistic : {&t.mean, &t.rstd}) *statistic = static_cast<float*>(allocated(rows * 4));
    t.flush = allocated(kFlushBytes);
    t.error = static_cast<double*>(allocated(2 * sizeof(double)));
    return t;
}

template <typename T>
__global__ void fill(T* values, int64_t count, uint64_t seed, float scale, float offset) {
    const int64_t step = int64_t{gridDim.x} * blockDim.x;
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
        values[i] = from_float<T>(drawn(i, seed) * scale + offset);
    }
}

__global__ void add(const float4* a, const float4* b, float4* sum, int64_t count) {
    const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
    if (i < count) sum[i] = {a[i].x + b[i].x, a[i].y + b[i].y, a[i].z + b[i].z, a[i].w + b[i].w};
}

// Errors are not negative, so that their bits are ordered as they are; what is not a number counts as huge.
__device__ void note(double* worst, double ours, double wanted) {
    const double off = fabs(ours - wanted);
    atomicMax(reinterpret_cast<unsigned long long*>(worst), __double_as_longlong(off < 1e30 ? off : 1e30));
}

__device__ int64_t sampled(int64_t count) { return gridDim.x == 1 ? 0 : blockIdx.x * (count - 1) / (gridDim.x - 1); }

// A block checks a row of y, or where dy is given of dx.
template <bool kCentred, typename T>
__global__ void check_rows(const T* x, const T* dy, const T* weight, const T* bias, const T* ours, Shape s, double* worst) {
    const int64_t begin = sampled(s.rows) * s.length;
    double sum = 0.0, squares = 0.0;
    for (int64_t i = threadIdx.x; i < s.length; i += kThreads) sum += to_float(x[begin + i]);
    const double mean = kCentred ? block_total(sum) / s.length : 0.0;
    for (int64_t i = threadIdx.x; i < s.length; i += kThreads) {
        squares += (to_float(x[begin + i]) - mean) * (to_float(x[begin + i]) - mean);
    }
    const double rstd = 1.0 / sqrt(block_total(squares) / s.length + kEps);
    double plain = 0.0, with_normal = 0.0;
    for (int64_t i = threadIdx.x; dy != nullptr && i < s.length; i += kThreads) {
        const double g = static_cast<double>(to_float(dy[begin + i])) * to_float(weight[i]);
        plain += g;
        with_normal += g * (to_float(x[begin + i]) - mean) * rstd;
    }
    plain = kCentred ? block_total(plain) / s.length : 0.0;
    with_normal = block_total(with_normal) / s.length;
    for (int64_t i = threadIdx.x; i < s.length; i += kThreads) {
        const double normal = (to_float(x[begin + i]) - mean) * rstd;
        double wanted = normal * to_float(weight[i]) + (kCentred ? to_float(bias[i]) : 0.0f);
        if (dy != nullptr) {
            const double g = static_cast<double>(to_float(dy[begin + i])) * to_float(weight[i]);
            wanted = rstd * (g - plain - normal * with_normal);
        }
        note(worst, to_float(ours[begin + i]), wanted);
    }
}

// A block checks a column of dweight and dbias, in units of the square root of the rows.
template <bool kCentred, typename T>
__global__ void check_columns(
    const T* x, const T* dy, const float* means, const float* rstds, const T* dweight, const T* dbias, Shape s,
    double* worst) {
    const int64_t column = sampled(s.length);
    double of_weight = 0.0, of_bias = 0.0;
    for (int64_t row = threadIdx.x; row < s.rows; row += kThreads) {
        const double g = to_float(dy[row * s.length + column]);
        const double mean = kCentred ? means[row] : 0.0f;
        of_weight += g * (to_float(x[row * s.length + column]) - mean) * rstds[row];
        of_bias += g;
    }
    of_weight = block_total(of_weight);
    of_bias = block_total(of_bias);
    const double unit = sqrt(double(s.rows));
    note(worst, to_float(dweight[column]) / unit, of_weight / unit);
    if (kCentred) note(worst, to_float(dbias[column]) / unit, of_bias / unit);
}

void print(const Shape& s, const char* what, const Times& t, double floor_ms, const double* error) {
    std::printf("%-9s [%6ld,%5ld] %s %-8s %.4f %.4f %.4f ms, at the least %.4f   error %.1e", s.centred ? "LayerNorm" : "RMSNorm",
                long(s.rows), long(s.length), s.dtype == kFloat32 ? "f32" : "b16", what, t.p20, t.p50, t.p80, floor_ms,
                error[0]);
    if (error[1] >= 0.0) std::printf(" %.1e", error[1]);
    std::printf("\n");
    std::fflush(stdout);
}

void poison(const Tensors& t, const Shape& s) {
    CHECK(cudaMemset(t.y, 0xff, s.bytes()));
    for (void* parameter : {t.dweight, t.dbias}) CHECK(cudaMemset(parameter, 0xff, s.length * 4));
    CHECK(cudaMemset(t.error, 0, 2 * sizeof(double)));
}

template <bool kCentred, typename T>
void measure(const Tensors& t, const Shape& s) {
    auto *x = static_cast<T*>(t.x), *dy = static_cast<T*>(t.dy), *y = static_cast<T*>(t.y);
    auto *weight = static_cast<T*>(t.weight), *bias = static_cast<T*>(t.bias);
    fill<T><<<1024, 256>>>(x, s.elements(), 1, 2.0f, 0.5f);
    fill<T><<<1024, 256>>>(dy, s.elements(), 2, 1.0f, 0.1f);
    fill<T><<<16, 256>>>(weight, s.length, 3, 1.0f, 1.0f);
    fill<T><<<16, 256>>>(bias, s.length, 4, 1.0f, 0.0f);
    const RowForward f = {x, weight, kCentred ? bias : nullptr, y, t.mean, t.rstd, s.rows, s.length, s.dtype, s.dtype, kEps,
                          nullptr, 0};
    RowBackward b = {dy, x, weight, t.mean, t.rstd, y, t.dweight, kCentred ? t.dbias : nullptr, nullptr, s.rows, s.length,
                     s.dtype, s.dtype, nullptr, 0};
    b.workspace = allocated(row_backward_workspace(b));
    const unsigned rows = unsigned(std::min<int64_t>(s.rows, kRowsChecked));
    const int64_t packs = s.bytes() / 16;
    double error[2];

    poison(t, s);
    CHECK(row_forward<kCentred>(f));
    check_rows<kCentred, T><<<rows, kThreads>>>(x, nullptr, weight, bias, y, s, t.error);
    CHECK(cudaMemcpy(error, t.error, sizeof error, cudaMemcpyDeviceToHost));
    error[1] = -1.0;
    const Times copied = timed([&] { return cudaMemcpyAsync(y, x, s.bytes(), cudaMemcpyDeviceToDevice); }, t.flush);
    print(s, "forward", timed([&] { return row_forward<kCentred>(f); }, t.flush), copied.p50, error);

    poison(t, s);
    CHECK(row_backward<kCentred>(b));
    check_rows<kCentred, T><<<rows, kThreads>>>(x, dy, weight, bias, y, s, t.error);
    check_columns<kCentred, T><<<kColumnsChecked, kThreads>>>(
        x, dy, t.mean, t.rstd, static_cast<T*>(t.dweight), static_cast<T*>(t.dbias), s, t.error + 1);
    CHECK(cudaMemcpy(error, t.error, sizeof error, cudaMemcpyDeviceToHost));
    const auto sum = [&] {
        add<<<unsigned(packs / kThreads + 1), kThreads>>>(
            static_cast<float4*>(t.x), static_cast<float4*>(t.dy), static_cast<float4*>(t.y), packs);
        return cudaGetLastError();
    };
    print(s, "backward", timed([&] { return row_backward<kCentred>(b); }, t.flush), timed(sum, t.flush).p50, error);
    CHECK(cudaFree(b.workspace));
}

}  // namespace

int main() {
    const Tensors t = tensors();
    for (const Shape& s : kShapes) {
        if (s.centred && s.dtype == kFloat32) measure<true, float>(t, s);
        if (s.centred && s.dtype == kBFloat16) measure<true, __nv_bfloat16>(t, s);
        if (!s.centred && s.dtype == kFloat32) measure<false, float>(t, s);
        if (!s.centred && s.dtype == kBFloat16) measure<false, __nv_bfloat16>(t, s);
    }
    return 0;
}
