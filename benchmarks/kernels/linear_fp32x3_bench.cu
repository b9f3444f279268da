// Checks and times linear_fp32x3 and linear_group_norm_min_bias on an sm_90 GPU. Needs nvcc and a GPU, nothing else:
//
//     nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a -o linear_bench benchmarks/kernels/linear_fp32x3_bench.cu
//     ./linear_bench
//
// Errors are those of 64 rows of y against double arithmetic, over the root mean square of y; beside them those of a
// product in float whose sums run over K in order, as SGEMM's do. x is uniform, in [-1, 1) or in [0, 1) (where sums grow
// with K and cut-off bits add up), the weight in [-1, 1) / sqrt(K). Of SGEMM itself the time is not taken here: cuBLAS is
// no part of this program; 2.66 ms was measured for [1024, 8192] * [8192, 8192] on an H100.
#include <cmath>
#include <cstring>

#include "../../agent/kernels/linear_group_norm_min_bias/csrc/launch.cuh"
#include "timing.cuh"

using namespace kernelwright::linear;
using namespace kernelwright::linear_group_norm_min_bias;
using namespace kernelwright::timing;

namespace {

constexpr int kRows = 64;  // that are compared
constexpr int kGroupWidth = 16;

struct Shape {
    int m, n, k;
    bool positive;
};

const Shape kShapes[] = {{1024, 8192, 8192, true},  {1024, 8192, 8192, false}, {1024, 8192, 64, true},
                         {1024, 8192, 64, false},   {1024, 8192, 128, false},  {1024, 8192, 256, false},
                         {1024, 8192, 512, false},  {1024, 8192, 1024, true},  {1024, 8192, 1024, false},
                         {1024, 8192, 4096, true},  {1024, 8192, 16384, true}, {4096, 4096, 4096, false},
                         {8192, 8192, 8192, false}, {128, 4096, 4096, false}};

__global__ void fill(float* values, int64_t count, uint64_t seed, float scale, float offset) {
    const int64_t step = int64_t{gridDim.x} * blockDim.x;
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
        values[i] = drawn(i, seed) * scale + offset;
    }
}

// exact[i, j] and in_float[i, j] of row i * stride of x, a thread each.
__global__ void reference(const float* x, const float* weight, const float* bias, int n, int k, int stride, double* exact,
                          float* in_float) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    const float* of_x = x + static_cast<int64_t>(blockIdx.y) * stride * k;
    const float* of_weight = weight + static_cast<int64_t>(j) * k;
    double sum = bias[j];
    float plain = 0.0f;
    for (int i = 0; i < k; ++i) {
        sum += static_cast<double>(of_x[i]) * of_weight[i];
        plain = fmaf(of_x[i], of_weight[i], plain);
    }
    exact[static_cast<int64_t>(blockIdx.y) * n + j] = sum;
    in_float[static_cast<int64_t>(blockIdx.y) * n + j] = plain + bias[j];
}

struct Tensors {
    float *x, *weight, *bias, *gamma, *beta, *y, *smallest, *sizes, *out;
    unsigned char *x_packed, *weight_packed;
    int* suspect;
    double* exact;
    float* in_float;
    void* flush;
};

template <typename T>
T* of(int64_t count) {
    return static_cast<T*>(allocated(count * static_cast<int64_t>(sizeof(T))));
}

Tensors tensors(const Shape& s) {
    Tensors t;
    const int64_t m = s.m, n = s.n, k = s.k;
    t.x = of<float>(m * k), t.weight = of<float>(n * k), t.bias = of<float>(n), t.gamma = of<float>(n);
    t.beta = of<float>(n), t.y = of<float>(m * n), t.smallest = of<float>(m * n / kTile), t.sizes = of<float>(m * n / kTile), t.suspect = of<int>(1), t.out = of<float>(m * n);
    t.x_packed = of<unsigned char>(packed_bytes(m, k / kDepth));
    t.weight_packed = of<unsigned char>(packed_bytes(n, k / kDepth));
    t.exact = of<double>(kRows * n), t.in_float = of<float>(kRows * n), t.flush = allocated(kFlushBytes);
    fill<<<1024, 256>>>(t.x, m * k, 1, s.positive ? 0.5f : 1.0f, s.positive ? 0.5f : 0.0f);
    fill<<<1024, 256>>>(t.weight, n * k, 2, 1.0f / std::sqrt(static_cast<float>(k)), 0.0f);
    fill<<<64, 256>>>(t.bias, n, 3, 0.01f, 0.0f);
    fill<<<64, 256>>>(t.gamma, n, 4, 0.5f, 1.0f);
    fill<<<64, 256>>>(t.beta, n, 5, 1.0f, 0.0f);
    reference<<<dim3(s.n / 128, kRows), 128>>>(t.x, t.weight, t.bias, s.n, s.k, s.m / kRows, t.exact, t.in_float);
    CHECK(cudaDeviceSynchronize());
    return t;
}

void freed(const Tensors& t) {
    void* const all[] = {t.x,   t.weight,   t.bias,          t.gamma, t.beta,     t.y,    t.smallest, t.sizes, t.suspect,
                         t.out, t.x_packed, t.weight_packed, t.exact, t.in_float, t.flush};
    for (void* memory : all) CHECK(cudaFree(memory));
}

template <typename T>
std::vector<T> on_host(const T* device, int64_t count) {
    std::vector<T> values(count);
    CHECK(cudaMemcpy(values.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}

// Largest and root mean square, over the root mean square of what is wanted.
struct Error {
    double largest = 0.0, squares = 0.0, wanted = 0.0;
    int64_t count = 0, missing = 0;

    void add(double ours, double exact) {
        if (std::isnan(ours)) ++missing;
        largest = std::max(largest, std::fabs(ours - exact));
        squares += (ours - exact) * (ours - exact);
        wanted += exact * exact;
        ++count;
    }
    void print(const char* name) const {
        std::printf("  %-8s max %.2e rms %.2e%s", name, largest / std::sqrt(wanted / count), std::sqrt(squares / wanted),
                    missing > 0 ? " NAN" : "");
    }
};

int multiprocessors() { return attribute(cudaDevAttrMultiProcessorCount, 0); }

cudaError_t split_into(const Shape& s, const Tensors& t, const Product& p, bool of_x, bool of_weight) {
    const Rows x = rows_of(t.x, of_x ? s.m : 0, s.k, p.x), weight = rows_of(t.weight, of_weight ? s.n : 0, s.k, p.weight);
    return split(x, weight, s.k, p.stages, p.suspect, nullptr);
}

// The product, and the check behind it.
template <int PROMOTE, class Finish>
cudaError_t multiply_and_check(const Shape& s, const Tensors& t, const Product& p, const Finish& finish) {
    const cudaError_t error = multiply<PROMOTE>(p, finish, multiprocessors(), nullptr);
    kernelwright::linear::Forward args = {};
    args.x = t.x, args.weight = t.weight, args.m = s.m, args.n = s.n, args.k = s.k;
    return error == cudaSuccess ? compute_anew(p, args, finish.anew(), multiprocessors(), nullptr) : error;
}

void print_times(const Shape& s, const char* name, const Times& t, double operations) {
    std::printf("[%4d,%5d] * [%5d,%5d]%s %-14s %8.4f %8.4f %8.4f ms %7.1f TFLOP/s", s.m, s.k, s.n, s.k,
                s.positive ? "+" : " ", name, t.p20, t.p50, t.p80, operations / t.p50 * 1e-9);
}

template <int PROMOTE>
void one_product(const Shape& s, const Tensors& t, const Product& p) {
    if (p.stages % PROMOTE != 0) return;
    CHECK(cudaMemset(t.y, 0xff, sizeof(float) * s.m * s.n));
    const Times times = timed([&] { return multiply_and_check<PROMOTE>(s, t, p, StoreTile{t.y}); }, t.flush);
    char name[32];
    std::snprintf(name, sizeof name, "promote %d", PROMOTE * kDepth);
    print_times(s, name, times, 2.0 * s.m * s.n * s.k);
    const auto exact = on_host(t.exact, int64_t{kRows} * s.n);
    Error error;
    for (int row = 0; row < kRows; ++row) {
        const auto ours = on_host(t.y + int64_t{row} * (s.m / kRows) * s.n, s.n);
        for (int j = 0; j < s.n; ++j) error.add(ours[j], exact[int64_t{row} * s.n + j]);
    }
    error.print("");
    std::printf("\n");
}

// The path for every GPU.
void by_ieee(const Shape& s, const Tensors& t) {
    const Plain plain = {t.x, t.weight, t.bias, t.y, s.m, s.n, s.k, false, false};
    print_times(s, "ieee", timed([&] { return multiply_portable(plain, nullptr); }, t.flush), 2.0 * s.m * s.n * s.k);
    std::printf("\n");
}

// The fused kernel: all of it, and all but the splitting of the weight.
void fused(const Shape& s, const Tensors& t, const Product& p) {
    const LeastOfGroups<kGroupWidth> finish = {{t.gamma, t.beta, 1e-5f}, t.smallest};
    const auto whole = [&](bool of_weight) {
        cudaError_t error = split_into(s, t, p, true, of_weight);
        if (error == cudaSuccess) error = multiply_and_check<kPromote>(s, t, p, finish);
        return error == cudaSuccess ? spread(t.smallest, s.n / kTile, t.beta, t.out, s.m, s.n, nullptr) : error;
    };
    const double operations = 2.0 * s.m * s.n * s.k;
    print_times(s, "fused, cached", timed([&] { return whole(false); }, t.flush), operations);
    std::printf("\n");
    print_times(s, "fused, all", timed([&] { return whole(true); }, t.flush), operations);
    const auto exact = on_host(t.exact, int64_t{kRows} * s.n);
    const auto gamma = on_host(t.gamma, s.n), beta = on_host(t.beta, s.n), out = on_host(t.out, int64_t{s.m} * s.n);
    Error error;
    for (int row = 0; row < kRows; ++row) {
        double lowest = INFINITY;
        for (int group = 0; group < s.n / kGroupWidth; ++group) {
            const double* values = &exact[int64_t{row} * s.n + group * kGroupWidth];
            double mean = 0.0, variance = 0.0;
            for (int j = 0; j < kGroupWidth; ++j) mean += values[j] / kGroupWidth;
            for (int j = 0; j < kGroupWidth; ++j) variance += (values[j] - mean) * (values[j] - mean) / kGroupWidth;
            for (int j = 0; j < kGroupWidth; ++j) {
                const int c = group * kGroupWidth + j;
                lowest = std::min(lowest, (values[j] - mean) / std::sqrt(variance + 1e-5) * gamma[c] + beta[c]);
            }
        }
        for (int j = 0; j < s.n; ++j) error.add(out[int64_t{j} * s.m + row * (s.m / kRows)], lowest + beta[j]);
    }
    error.print("");
    std::printf("\n");
}

void measure(const Shape& s) {
    const Tensors t = tensors(s);
    Error plain;
    const auto exact = on_host(t.exact, int64_t{kRows} * s.n);
    const auto in_float = on_host(t.in_float, int64_t{kRows} * s.n);
    for (size_t i = 0; i < exact.size(); ++i) plain.add(in_float[i], exact[i]);
    std::printf("[%4d,%5d] * [%5d,%5d]%s", s.m, s.k, s.n, s.k, s.positive ? "+" : " ");
    plain.print("float");
    std::printf("\n");
    const int stages = s.k / kDepth;
    const Product p = {packed_at(t.x_packed, s.m, stages), packed_at(t.weight_packed, s.n, stages), t.bias, s.m, s.n,
                       s.k, stages, t.suspect, t.sizes, kernelwright::matmul::needed_for(2.0f * s.k)};
    print_times(s, "split weight", timed([&] { return split_into(s, t, p, false, true); }, t.flush), 0.0);
    std::printf("\n");
    print_times(s, "split x", timed([&] { return split_into(s, t, p, true, false); }, t.flush), 0.0);
    std::printf("\n");
    one_product<1>(s, t, p);
    one_product<2>(s, t, p);
    one_product<4>(s, t, p);
    one_product<16>(s, t, p);
    by_ieee(s, t);
    fused(s, t, p);
    freed(t);
    std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
    if (count > 1) {
        measure(kShapes[std::atoi(arguments[1])]);
        return 0;
    }
    for (size_t i = 0; i < sizeof kShapes / sizeof *kShapes; ++i) run_apart("/proc/self/exe", std::to_string(i));
    return 0;
}
