// Checks and times every path of GroupNorm on the GPU at hand. Needs nvcc and a GPU, nothing else:
//
//     nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a -o group_norm_bench benchmarks/kernels/group_norm_bench.cu
//     ./group_norm_bench                  every path on every shape, each path in a process of its own
//     ./group_norm_bench streamed 3       one path on the first three shapes; `copy` and `backward-streamed` are names too
//
// Checked against double arithmetic on the GPU by plain kernels of this file, on outputs that were poisoned before. A
// run flushes L2 and is timed with events; printed are the 20th, 50th and 80th percentile, the bytes that have to be
// moved (one read, one write; for the backward two reads, one write) over the median, and the errors.
#include <cmath>
#include <cstring>
#include <string>

#define KW_DTYPES 5  // float32 and bfloat16
#include "../../agent/kernels/group_norm/csrc/launch.cuh"
#include "timing.cuh"

using namespace kernelwright::group_norm;
using namespace kernelwright::timing;

namespace {

constexpr double kEps = 1e-5;

const char* const kNames[] = {"auto", "portable", "streamed", "clustered"};

int64_t path_named(const std::string& name) {
    for (int64_t path = kPortable; path <= kClustered; ++path) {
        if (name == kNames[path]) return path;
    }
    return -1;
}

struct Shape {
    int64_t n, channels, spatial, groups, dtype;
    float offset;  // of the mean
    __host__ __device__ int64_t elements() const { return n * channels * spatial; }
    int64_t bytes() const { return elements() * (dtype == kFloat32 ? 4 : 2); }
    __host__ __device__ int64_t rows() const { return n * groups; }
};

const Shape kShapes[] = {
    {112, 64, 512 * 512, 8, kFloat32, 0},    // the target: groups of 8 MiB
    {112, 64, 512 * 512, 8, kFloat32, 1e3},  // the same far from zero
    {32, 128, 256 * 256, 8, kFloat32, 0},    // 4 MiB
    {64, 64, 256 * 256, 8, kFloat32, 0},     // 2 MiB
    {64, 256, 128 * 128, 32, kFloat32, 0},   // 512 KiB
    {64, 320, 64 * 64, 32, kFloat32, 0},     // 160 KiB
    {16, 512, 32 * 32, 32, kFloat32, 0},     // 64 KiB
    {13, 96, 500 * 300, 3, kFloat32, 0},     // 18 MiB, chunks that straddle channels
    {56, 64, 512 * 512, 8, kBFloat16, 0},    // 4 MiB
    {2, 320, 64 * 64, 32, kFloat32, 0},      // 160 KiB, few of them
    {2, 640, 64 * 64, 32, kBFloat16, 0},     // the same
    {2, 2560, 16 * 16, 32, kBFloat16, 0},    // 40 KiB, few of them
    {1, 512, 64 * 64, 32, kBFloat16, 0},     // 128 KiB, fewer
    {2, 64, 49, 8, kFloat32, 0},             // small
    {64, 512, 1, 32, kFloat32, 0},           // two dimensions
};

template <typename T>
__global__ void fill(T* values, int64_t count, uint64_t seed, float offset) {
    const int64_t step = int64_t{gridDim.x} * blockDim.x;
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
        values[i] = from_float<T>(drawn(i, seed) + offset);
    }
}

// Mean and rstd of a row in two passes, in double.
template <typename T>
__global__ void reference_moments(const T* x, int64_t length, double2* moments) {
    const T* row = x + blockIdx.x * length;
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < length; i += blockDim.x) sum += to_float(row[i]);
    const double mean = block_total(sum) / length;
    double squares = 0.0;
    for (int64_t i = threadIdx.x; i < length; i += blockDim.x) {
        const double deviation = to_float(row[i]) - mean;
        squares += deviation * deviation;
    }
    const double variance = block_total(squares) / length;
    if (threadIdx.x == 0) moments[blockIdx.x] = {mean, 1.0 / sqrt(variance + kEps)};
}

struct Error {
    unsigned long long largest;  // bits of a double
    double squares;
    unsigned long long missing;  // not a number
};

__device__ void note(Error* error, double ours, double wanted) {
    const double off = fabs(ours - wanted);
    const double squares = block_total(isnan(off) ? 0.0 : off * off);
    if (isnan(off)) {
        atomicAdd(&error->missing, 1ull);
    } else {
        atomicMax(&error->largest, static_cast<unsigned long long>(__double_as_longlong(off)));
    }
    if (threadIdx.x == 0) atomicAdd(&error->squares, squares);
}

// What y has to be, or dx from the sums of each group; every thread of a block takes part in each step.
template <typename T>
__global__ void compare(const T* ours, const T* x, const T* dy, Shape s, const float* weight, const float* bias,
                        const double2* moments, const double2* of_group, Error* error) {
    const int64_t length = s.channels / s.groups * s.spatial;
    const int64_t step = int64_t{gridDim.x} * blockDim.x;
    for (int64_t base = int64_t{blockIdx.x} * blockDim.x; base < s.elements(); base += step) {
        const int64_t i = base + threadIdx.x;
        double wanted = 0.0;
        double got = 0.0;
        if (i < s.elements()) {
            const int64_t row = i / length;
            const int64_t channel = i / s.spatial % s.channels;
            const double xhat = (to_float(x[i]) - moments[row].x) * moments[row].y;
            wanted = xhat * weight[channel] + bias[channel];
            if (dy != nullptr) {
                const double mean = (of_group[row].x + xhat * of_group[row].y) / length;
                wanted = moments[row].y * (weight[channel] * static_cast<double>(to_float(dy[i])) - mean);
            }
            got = to_float(ours[i]);
        }
        note(error, got, wanted);
    }
}

// Sums of a plane for the backward: (sum dy, sum dy * xhat), in double.
template <typename T>
__global__ void reference_planes(const T* x, const T* dy, Shape s, const double2* moments, double2* of_plane) {
    const int64_t plane = blockIdx.x;
    const double2 m = moments[plane / (s.channels / s.groups)];
    double db = 0.0;
    double ds = 0.0;
    for (int64_t i = threadIdx.x; i < s.spatial; i += blockDim.x) {
        const double gradient = to_float(dy[plane * s.spatial + i]);
        db += gradient;
        ds += gradient * (to_float(x[plane * s.spatial + i]) - m.x) * m.y;
    }
    db = block_total(db);
    ds = block_total(ds);
    if (threadIdx.x == 0) of_plane[plane] = {db, ds};
}

__global__ void reference_groups(const double2* of_plane, Shape s, const float* weight, double2* of_group) {
    const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (row >= s.rows()) return;
    const int64_t channels = s.channels / s.groups;
    double2 sum = {0.0, 0.0};
    for (int64_t c = 0; c < channels; ++c) {
        const double w = weight[row % s.groups * channels + c];
        sum.x += w * of_plane[row * channels + c].x;
        sum.y += w * of_plane[row * channels + c].y;
    }
    of_group[row] = sum;
}

__global__ void compare_parameters(const double2* of_plane, Shape s, const float* dweight, const float* dbias,
                                   Error* error) {
    double2 sum = {0.0, 0.0};
    const int64_t c = blockIdx.x;
    for (int64_t n = threadIdx.x; n < s.n; n += blockDim.x) {
        sum.x += of_plane[n * s.channels + c].x;
        sum.y += of_plane[n * s.channels + c].y;
    }
    const double db = block_total(sum.x);
    const double ds = block_total(sum.y);
    note(error, threadIdx.x == 0 ? dbias[c] : 0.0, threadIdx.x == 0 ? db : 0.0);
    note(error, threadIdx.x == 0 ? dweight[c] : 0.0, threadIdx.x == 0 ? ds : 0.0);
}

void print(const Shape& s, const char* name, const Times& t, double bytes, const Error& e, double scale) {
    const bool right = e.missing == 0;
    double largest;
    std::memcpy(&largest, &e.largest, sizeof largest);
    std::printf("[%4ld,%4ld,%7ld] g%-3ld %s%s %-9s %8.4f %8.4f %8.4f ms %6.3f TB/s  max %.2e rms %.2e%s\n", long(s.n),
                long(s.channels), long(s.spatial), long(s.groups), s.dtype == kFloat32 ? "f32" : "b16",
                s.offset == 0 ? "   " : "+1e3", name, t.p20, t.p50, t.p80, bytes / t.p50 * 1e-9, largest / scale,
                std::sqrt(e.squares / static_cast<double>(s.elements())) / scale, right ? "" : "  UNWRITTEN OR NAN");
    std::fflush(stdout);
}

struct Tensors {
    void *x, *y, *dy, *flush;
    float *weight, *bias, *mean, *rstd, *dweight, *dbias;
    double2 *moments, *of_plane, *of_group;
    Error* error;
};

// The largest shape's memory, made once.
Tensors tensors(bool backward) {
    int64_t bytes = 0, channels = 0, planes = 0;
    for (const Shape& s : kShapes) {
        bytes = std::max(bytes, s.bytes());
        channels = std::max(channels, s.channels);
        planes = std::max(planes, s.n * s.channels);
    }
    Tensors t = {};
    t.x = allocated(bytes);
    t.y = allocated(bytes);
    t.dy = backward ? allocated(bytes) : nullptr;
    t.flush = allocated(kFlushBytes);
    for (float** parameter : {&t.weight, &t.bias, &t.dweight, &t.dbias}) {
        *parameter = static_cast<float*>(allocated(channels * 4));
    }
    t.mean = static_cast<float*>(allocated(planes * 4));
    t.rstd = static_cast<float*>(allocated(planes * 4));
    t.moments = static_cast<double2*>(allocated(planes * 16));
    t.of_plane = static_cast<double2*>(allocated(planes * 16));
    t.of_group = static_cast<double2*>(allocated(planes * 16));
    t.error = static_cast<Error*>(allocated(sizeof(Error)));
    return t;
}

Error read_error(const Tensors& t) {
    Error error;
    CHECK(cudaMemcpy(&error, t.error, sizeof error, cudaMemcpyDeviceToHost));
    return error;
}

template <typename T>
void prepare(const Tensors& t, const Shape& s) {
    fill<T><<<1024, 256>>>(static_cast<T*>(t.x), s.elements(), 1, s.offset);
    fill<float><<<1, 256>>>(t.weight, s.channels, 2, 1.0f);
    fill<float><<<1, 256>>>(t.bias, s.channels, 3, 0.0f);
    reference_moments<T><<<unsigned(s.rows()), 512>>>(static_cast<T*>(t.x), s.elements() / s.rows(), t.moments);
    CHECK(cudaDeviceSynchronize());
}

// A launch that the device does not take costs a path one shape.
bool refused(cudaError_t error, const char* name) {
    if (error == cudaSuccess) return false;
    std::printf("%s: %s\n", name, cudaGetErrorString(error));
    (void)cudaGetLastError();
    return true;
}

Forward forward_call(const Tensors& t, const Shape& s, int64_t path) {
    Forward f = {};
    f.x = t.x, f.weight = t.weight, f.bias = t.bias, f.y = t.y, f.mean = t.mean, f.rstd = t.rstd;
    f.n = s.n, f.channels = s.channels, f.spatial = s.spatial, f.groups = s.groups;
    f.dtype = s.dtype, f.param_dtype = kFloat32, f.path = path, f.eps = kEps;
    return f;
}

template <typename T>
void forward_of(const Tensors& t, const Shape& s, int64_t path) {
    Forward f = forward_call(t, s, path);
    if (!takes_path(f, path)) {
        std::printf("[%4ld,%4ld,%7ld] g%-3ld %-9s does not take it\n", long(s.n), long(s.channels), long(s.spatial),
                    long(s.groups), kNames[path]);
        return;
    }
    prepare<T>(t, s);
    f.workspace = allocated(forward_workspace(f));
    CHECK(cudaMemset(t.y, 0xff, s.bytes()));
    CHECK(cudaMemset(t.error, 0, sizeof(Error)));
    if (refused(forward(f), kNames[path])) return;
    const Times times = timed([&] { return forward(f); }, t.flush);
    compare<T><<<2048, 256>>>(static_cast<T*>(t.y), static_cast<T*>(t.x), nullptr, s, t.weight, t.bias, t.moments, nullptr,
                              t.error);
    CHECK(cudaDeviceSynchronize());
    print(s, kNames[path], times, 2.0 * s.bytes(), read_error(t), 1.0);
    CHECK(cudaFree(f.workspace));
}

template <typename T>
void backward_of(const Tensors& t, const Shape& s, int64_t path) {
    prepare<T>(t, s);
    fill<T><<<1024, 256>>>(static_cast<T*>(t.dy), s.elements(), 5, 0.0f);
    Forward f = forward_call(t, s, kPortable);
    f.workspace = allocated(forward_workspace(f));
    CHECK(forward(f));
    Backward b = {};
    b.dy = t.dy, b.x = t.x, b.weight = t.weight, b.bias = t.bias, b.mean = t.mean, b.rstd = t.rstd;
    b.dx = t.y, b.dweight = t.dweight, b.dbias = t.dbias;
    b.n = s.n, b.channels = s.channels, b.spatial = s.spatial, b.groups = s.groups;
    b.dtype = s.dtype, b.param_dtype = kFloat32, b.path = path;
    if (!takes_path(b, path)) return;
    b.workspace = allocated(backward_workspace(b));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemset(t.y, 0xff, s.bytes()));
    if (refused(backward(b), kNames[path])) return;
    const Times times = timed([&] { return backward(b); }, t.flush);
    const T* x = static_cast<T*>(t.x);
    const T* dy = static_cast<T*>(t.dy);
    reference_planes<T><<<unsigned(s.n * s.channels), 256>>>(x, dy, s, t.moments, t.of_plane);
    reference_groups<<<unsigned(s.rows() / 128 + 1), 128>>>(t.of_plane, s, t.weight, t.of_group);
    CHECK(cudaMemset(t.error, 0, sizeof(Error)));
    compare<T><<<2048, 256>>>(static_cast<T*>(t.y), x, dy, s, t.weight, t.bias, t.moments, t.of_group, t.error);
    const std::string name = std::string("dx ") + kNames[path];
    print(s, name.c_str(), times, 3.0 * s.bytes(), read_error(t), 1.0);
    CHECK(cudaMemset(t.error, 0, sizeof(Error)));
    compare_parameters<<<unsigned(s.channels), 256>>>(t.of_plane, s, t.dweight, t.dbias, t.error);
    print(s, "dweight", times, 3.0 * s.bytes(), read_error(t), std::sqrt(double(s.n * s.spatial)));
    CHECK(cudaFree(b.workspace));
    CHECK(cudaFree(f.workspace));
}

void copy() {
    const Tensors t = tensors(false);
    const Shape& s = kShapes[0];
    const Times times = timed(
        [&] { return cudaMemcpyAsync(t.y, t.x, s.bytes(), cudaMemcpyDeviceToDevice, nullptr); }, t.flush);
    print(s, "copy", times, 2.0 * s.bytes(), {}, 1.0);
}

int run(const std::string& name, int shapes) {
    if (name == "copy") return copy(), 0;
    const bool is_backward = name.rfind("backward", 0) == 0;
    const int64_t path = path_named(is_backward ? name.substr(std::min(name.size(), size_t{9})) : name);
    if (path < 0) return std::printf("no path is called %s\n", name.c_str()), 2;
    const Tensors t = tensors(is_backward);
    for (const Shape& s : kShapes) {
        if (shapes-- == 0) break;
        if (is_backward && s.dtype == kFloat32) backward_of<float>(t, s, path);
        if (is_backward && s.dtype == kBFloat16) backward_of<__nv_bfloat16>(t, s, path);
        if (!is_backward && s.dtype == kFloat32) forward_of<float>(t, s, path);
        if (!is_backward && s.dtype == kBFloat16) forward_of<__nv_bfloat16>(t, s, path);
    }
    return 0;
}

}  // namespace

int main(int count, char** arguments) {
    if (count > 1) return run(arguments[1], count > 2 ? std::atoi(arguments[2]) : -1);
    run_apart("/proc/self/exe", "copy");
    for (int64_t path = kPortable; path <= kClustered; ++path) run_apart("/proc/self/exe", kNames[path]);
    for (int64_t path = kPortable; path <= kClustered; ++path) {
        run_apart("/proc/self/exe", std::string("backward-") + kNames[path]);
    }
    return 0;
}
