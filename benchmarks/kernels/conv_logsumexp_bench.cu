// Checks and times conv_group_norm_tanh_hardswish_residual_logsumexp on an sm_90 GPU. Needs nvcc and a GPU, nothing else:
//
//     nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a -o conv_bench benchmarks/kernels/conv_logsumexp_bench.cu
//     ./conv_bench
//
// Errors are those of every element against the whole chain in double. `float` is the same chain in plain float: sums of
// the convolution in order, statistics in double, tanhf, expf of differences from the largest. Times are of the whole call
// and of its kernels, with a cold L2. cuDNN is no part of this program; by default it would use TF32 here.
#include <cmath>

#include "../../agent/kernels/conv_group_norm_tanh_hardswish_residual_logsumexp/csrc/launch.cuh"
#include "timing.cuh"

using namespace kernelwright::conv_logsumexp;
using namespace kernelwright::timing;

namespace {

constexpr int kChannels = 64;
constexpr double kEps = 1e-5;

struct Case {
    int n, height, width, groups;
    float mean;      // of the input
    bool is_spread;  // channels and images over many orders of magnitude
};

const Case kCases[] = {{128, 128, 128, 16, 0.0f, false}, {128, 128, 128, 16, 30.0f, false}, {16, 128, 128, 16, 0.0f, true},
                       {32, 61, 37, 1, 0.0f, false},     {4, 200, 517, 64, 0.0f, false},    {1, 3, 3, 16, 0.0f, false}};

__global__ void fill(float* values, int64_t count, uint64_t seed, float scale, float mean) {
    const int64_t step = int64_t{gridDim.x} * blockDim.x;
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
        values[i] = drawn(i, seed) * scale + mean;
    }
}

// Part i of `parts` is scaled by 10^(i % 7 - 4).
__global__ void spread(float* values, int64_t count, int64_t part) {
    const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < count) values[i] *= powf(10.0f, static_cast<float>(i / part % 7) - 4.0f);
}

// c [n, kChannels, rows, columns], a thread each; channel and image are the block's y and z.
template <typename T>
__global__ void reference_conv(const float* x, const float* weight, const float* bias, T* c, int height, int width) {
    const int rows = height - 2, columns = width - 2, at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= rows * columns) return;
    T sum = 0;
    for (int in = 0; in < 8; ++in) {
        const float* plane = x + (int64_t{blockIdx.z} * 8 + in) * height * width;
        for (int tap = 0; tap < 9; ++tap) {
            const T value = plane[(at / columns + tap / 3) * width + at % columns + tap % 3];
            sum += value * T(weight[(blockIdx.y * 8 + in) * 9 + tap]);
        }
    }
    c[(int64_t{blockIdx.z} * kChannels + blockIdx.y) * rows * columns + at] = sum + bias[blockIdx.y];
}

// Block (group, image): mean and 1 / deviation.
template <typename T>
__global__ void reference_norm(const T* c, double2* norms, int64_t count) {
    __shared__ double sums[256];
    const T* values = c + (int64_t{blockIdx.y} * gridDim.x + blockIdx.x) * count;
    double kept[2] = {0.0, 0.0};
    for (int pass = 0; pass < 2; ++pass) {
        double sum = 0.0;
        for (int64_t i = threadIdx.x; i < count; i += 256) {
            const double off = values[i] - kept[0];
            sum += pass == 0 ? off : off * off;
        }
        sums[threadIdx.x] = sum;
        __syncthreads();
        for (int i = 128; i > 0; i /= 2) {
            if (threadIdx.x < i) sums[threadIdx.x] += sums[threadIdx.x + i];
            __syncthreads();
        }
        kept[pass] = sums[0] / static_cast<double>(count);
        __syncthreads();
    }
    if (threadIdx.x == 0) norms[blockIdx.y * gridDim.x + blockIdx.x] = {kept[0], 1.0 / sqrt(kept[1] + kEps)};
}

template <typename T>
__global__ void reference_end(const T* c, const double2* norms, const float* gamma, const float* beta, double* y, int64_t plane,
                              int groups) {
    const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (at >= plane) return;
    T values[kChannels];
    T largest = -INFINITY;
    for (int channel = 0; channel < kChannels; ++channel) {
        const double2 norm = norms[blockIdx.y * groups + channel * groups / kChannels];
        const T v = c[(int64_t{blockIdx.y} * kChannels + channel) * plane + at];
        const T t = tanh((v - T(norm.x)) * T(norm.y) * T(gamma[channel]) + T(beta[channel]));
        values[channel] = v + t * (t + T(3)) / T(6);
        largest = values[channel] > largest ? values[channel] : largest;
    }
    T sum = 0;
    for (int channel = 0; channel < kChannels; ++channel) sum += exp(values[channel] - largest);
    y[blockIdx.y * plane + at] = largest + log(sum);
}

template <typename T>
T* of(int64_t count) {
    return static_cast<T*>(allocated(count * static_cast<int64_t>(sizeof(T))));
}

template <typename T>
std::vector<double> reference(const Forward& f) {
    const int64_t rows = f.height - 2, columns = f.width - 2, plane = rows * columns;
    T* c = of<T>(f.n * kChannels * plane);
    double2* norms = of<double2>(f.n * f.groups);
    double* y = of<double>(f.n * plane);
    const unsigned blocks = static_cast<unsigned>((plane + 127) / 128), n = static_cast<unsigned>(f.n);
    const unsigned groups = static_cast<unsigned>(f.groups);
    reference_conv<T><<<dim3(blocks, kChannels, n), 128>>>(f.x, f.weight, f.bias, c, static_cast<int>(f.height),
                                                           static_cast<int>(f.width));
    reference_norm<T><<<dim3(groups, n), 256>>>(c, norms, plane * (kChannels / f.groups));
    reference_end<T><<<dim3(blocks, n), 128>>>(c, norms, f.gamma, f.beta, y, plane, static_cast<int>(f.groups));
    std::vector<double> host(f.n * plane);
    CHECK(cudaMemcpy(host.data(), y, host.size() * sizeof(double), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(c));
    CHECK(cudaFree(norms));
    CHECK(cudaFree(y));
    return host;
}

void print_error(const std::vector<double>& exact, const std::vector<double>& ours) {
    double largest = 0.0, squares = 0.0;
    int64_t missing = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
        const double off = ours[i] - exact[i];
        if (!(std::fabs(off) < INFINITY)) ++missing;
        largest = std::max(largest, std::fabs(off));
        squares += off * off;
    }
    std::printf("  max %.2e rms %.2e", largest, std::sqrt(squares / static_cast<double>(exact.size())));
    if (missing > 0) std::printf(" NOT FINITE %lld", static_cast<long long>(missing));
    std::printf("\n");
}

void print_name(const Case& s, const char* name) {
    std::printf("[%3d,8,%3d,%3d]%s%s %2d groups  %-12s", s.n, s.height, s.width, s.mean != 0.0f ? "+" : " ",
                s.is_spread ? "*" : " ", s.groups, name);
}

Forward call_of(const Case& s) {
    Forward f = {};
    f.n = s.n, f.in_channels = 8, f.channels = kChannels, f.height = s.height, f.width = s.width, f.groups = s.groups;
    f.eps = kEps;
    const int64_t count = f.n * 8 * f.height * f.width;
    float *x = of<float>(count), *weight = of<float>(kChannels * 72), *rest = of<float>(3 * kChannels);
    fill<<<1024, 256>>>(x, count, 1, 1.7f, s.mean);
    fill<<<64, 256>>>(weight, kChannels * 72, 2, 0.118f, 0.0f);
    fill<<<1, 192>>>(rest, 2 * kChannels, 3, 0.5f, 0.0f);
    fill<<<1, 64>>>(rest + 2 * kChannels, kChannels, 4, 0.5f, 1.0f);
    if (s.is_spread) {
        spread<<<static_cast<unsigned>((count + 255) / 256), 256>>>(x, count, 8 * f.height * f.width);
        spread<<<kChannels * 72 / 64, 64>>>(weight, kChannels * 72, 72);
    }
    CHECK(cudaDeviceSynchronize());
    f.x = x, f.weight = weight, f.bias = rest, f.beta = rest + kChannels, f.gamma = rest + 2 * kChannels;
    f.y = of<float>(f.n * (f.height - 2) * (f.width - 2));
    return f;
}

void one_path(const Case& s, Forward f, const char* name, int64_t path, const std::vector<double>& exact, void* flush) {
    f.path = path;
    f.workspace = allocated(forward_workspace(f));
    CHECK(cudaMemset(f.y, 0xff, sizeof(float) * exact.size()));
    print_name(s, name);
    std::fflush(stdout);
    const Times t = timed([&] { return forward(f); }, flush);
    std::printf(" %7.4f %7.4f %7.4f ms", t.p20, t.p50, t.p80);
    std::vector<float> y(exact.size());
    CHECK(cudaMemcpy(y.data(), f.y, y.size() * sizeof(float), cudaMemcpyDeviceToHost));
    print_error(exact, {y.begin(), y.end()});
    CHECK(cudaFree(f.workspace));
}

// The kernels of a call, each alone.
void stages(const Case& s, Forward f, void* flush) {
    f.path = kStoredOnce;
    f.workspace = allocated(std::max(forward_workspace(f), workspace_of(f, sizes_of(f).tiles, true).bytes));
    CHECK(forward(f));
    const int64_t parts = sm90::parts_of_image(f);
    const Workspace w = workspace_of(f, parts, true);
    const sm90::Target to = {in_workspace<Part>(f, w.parts), in_workspace<float>(f, w.c), sizes_of(f).pitch,
                             in_workspace<Norm>(f, w.norms)};
    const auto line = [&](const char* name, auto call) {
        print_name(s, name);
        std::fflush(stdout);
        const Times t = timed(call, flush);
        std::printf(" %7.4f %7.4f %7.4f ms\n", t.p20, t.p50, t.p80);
    };
    line("-statistics", [&] { return sm90::convolve_all<sm90::kStatistics>(f, to); });
    line("-merge", [&] {
        merge(f, w, parts);
        return cudaGetLastError();
    });
    line("-result", [&] { return sm90::convolve_all<sm90::kResult>(f, to); });
    line("-stored", [&] { return sm90::convolve_all<sm90::kStored>(f, to); });
    line("-finish", [&] {
        finish_stored(f, w);
        return cudaGetLastError();
    });
    line("-portable", [&] {
        convolve_stored(f, workspace_of(f, sizes_of(f).tiles, true));
        return cudaGetLastError();
    });
    CHECK(cudaFree(f.workspace));
}

void measure(const Case& s, const std::string& design) {
    void* flush = allocated(kFlushBytes);
    const Forward f = call_of(s);
    if (design == "stages") return stages(s, f, flush);
    const std::vector<double> exact = reference<double>(f);
    if (design == "float") {
        print_name(s, "float");
        print_error(exact, reference<float>(f));
    }
    if (design == "portable") one_path(s, f, "portable", kPortable, exact, flush);
    if (design == "recomputed") one_path(s, f, "recomputed", kRecomputed, exact, flush);
    if (design == "stored once") one_path(s, f, "stored once", kStoredOnce, exact, flush);
}

}  // namespace

int main(int count, char** arguments) {
    if (count > 1) {
        const std::string given = arguments[1];
        measure(kCases[given[0] - '0'], given.substr(1));
        return 0;
    }
    for (size_t i = 0; i < sizeof kCases / sizeof *kCases; ++i) {
        for (const char* design : {"float", "portable", "recomputed", "stored once"}) {
            run_apart("/proc/self/exe", std::to_string(i) + design);
        }
        if (i == 0) run_apart("/proc/self/exe", "0stages");
    }
    return 0;
}
