// Faults in global memory. Each function makes its own mistake; the line that a finding has to name ends
// in a comment with the function's name.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <vector>

static torch::Tensor fresh(int n) { return torch::empty({n}, torch::TensorOptions().device(torch::kCUDA)); }

__global__ void difference(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i + 1] - x[i];  // here: read_one_beyond
}
torch::Tensor read_one_beyond(torch::Tensor x) {
    auto y = torch::empty_like(x);
    difference<<<8, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

__global__ void unguarded_square(const float* x, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float v = i < 1000 ? x[i] : 0.f;
    y[i] = v * v;  // here: write_unguarded
}
torch::Tensor write_unguarded(torch::Tensor x) {
    auto y = torch::empty_like(x);
    unguarded_square<<<8, 128>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

template <typename T>
__device__ T window_sum(const T* x, int at, int radius) {
    T s = 0;
    for (int k = -radius; k <= radius; k++) s += x[at + k];  // here: window_past_the_edge
    return s;
}
template <typename T>
__global__ void copy_rows(const T* x, T* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x]; }
template <typename T, int RADIUS>
__global__ void blur(const T* x, T* y, int n) {
    const int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) y[i] = window_sum(x, i, RADIUS) / (2 * RADIUS + 1);
}
torch::Tensor window_past_the_edge(torch::Tensor x) {
    auto copied = fresh(500), y = fresh(500);
    copy_rows<float><<<1, 512>>>(x.data_ptr<float>(), copied.data_ptr<float>(), 500);
    blur<float, 2><<<4, 128>>>(copied.data_ptr<float>(), y.data_ptr<float>(), 500);
    return y;
}

template <typename T>
__device__ void store(T* y, int row, int column, int width, T v) { y[row * width + column] = v; }  // here: rows_exchanged
template <typename T>
__global__ void outer_kernel(const T* x, T* y, int rows, int columns) {
    const int c = threadIdx.x, r = blockIdx.x;
    if (c < columns) store(y, c, r, columns, x[r] * x[c]);  // row and column are exchanged
}
torch::Tensor rows_exchanged(torch::Tensor x) {
    auto norm = x / x.abs().max();
    auto y = fresh(36 * 40);
    copy_rows<float><<<1, 960>>>(norm.data_ptr<float>(), y.data_ptr<float>(), 960);
    outer_kernel<float><<<36, 64>>>(norm.data_ptr<float>(), y.data_ptr<float>(), 36, 40);
    return y;
}

__global__ void sum_quads(const float4* x, float* y, int quads) {
    const int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= quads) return;
    const float4 v = x[q];  // here: vector_read_past_the_tail
    y[q] = v.x + v.y + v.z + v.w;
}
torch::Tensor vector_read_past_the_tail(torch::Tensor x) {
    auto odd = fresh(998);
    odd.fill_(1);
    auto y = fresh(250);
    sum_quads<<<2, 128>>>(reinterpret_cast<const float4*>(odd.data_ptr<float>()), y.data_ptr<float>(), 250);
    return y;
}

__global__ void fill_pairs(float2* y, int pairs) {
    for (int p = threadIdx.x; p < pairs; p += blockDim.x) y[p] = make_float2(p, -p);  // here: vector_write_past_the_end
}
torch::Tensor vector_write_past_the_end(torch::Tensor x) {
    auto y = fresh(333);
    fill_pairs<<<1, 64>>>((float2*)y.data_ptr<float>(), (333 + 1) / 2);
    return y;
}

__global__ void count_signs(const float* x, int* counts, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(counts + (x[i] > 0 ? 1 : 2), 1);  // here: atomic_beyond
}
torch::Tensor atomic_beyond(torch::Tensor x) {
    auto counts = torch::zeros({2}, x.options().dtype(torch::kInt));
    count_signs<<<10, 100>>>(x.data_ptr<float>(), counts.data_ptr<int>(), x.numel());
    return counts;
}

__global__ void add_bias(const float* x, const float* bias, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + bias[i % 10];  // here: null_bias
}
torch::Tensor null_bias(torch::Tensor x) {
    c10::optional<torch::Tensor> bias;
    auto y = torch::empty_like(x);
    add_bias<<<10, 100>>>(x.data_ptr<float>(), bias.has_value() ? bias->data_ptr<float>() : nullptr, y.data_ptr<float>(), x.numel());
    return y;
}

template <typename T> struct Saver {
    T* to;
    __device__ void keep(T v) const { atomicAdd(to, v); }  // here: null_counter
};
template <typename T>
__global__ void save_sum(const T* x, Saver<T> saver) { if (blockIdx.x == 1) saver.keep(x[threadIdx.x]); }
__global__ void prepare(float* x) { x[threadIdx.x] *= 2; }
torch::Tensor null_counter(torch::Tensor x) {
    prepare<<<1, 64>>>(x.data_ptr<float>());
    save_sum<float><<<2, 64>>>(x.data_ptr<float>(), Saver<float>{nullptr});
    return x;
}

__global__ void scale_quads(const float4* x, float4* y) {
    float4 v = x[threadIdx.x];
    v.x *= 2; v.y *= 2; v.z *= 2; v.w *= 2;
    y[threadIdx.x] = v;  // here: null_vector
}
torch::Tensor null_vector(torch::Tensor x) {
    torch::Tensor y;
    scale_quads<<<1, 250>>>((const float4*)x.data_ptr<float>(), y.defined() ? (float4*)y.data_ptr<float>() : nullptr);
    return x;
}

__global__ void polynomial(const float* x, const float* coefficients, float* y, int degree) {
    float v = 0;
    for (int k = degree; k >= 0; k--) v = v * x[threadIdx.x] + coefficients[k];  // here: host_coefficients
    y[threadIdx.x] = v;
}
torch::Tensor host_coefficients(torch::Tensor x) {
    std::vector<float> coefficients(1 << 23, 0.5f);  // large enough to get pages that no tensor had before
    auto y = torch::empty_like(x);
    polynomial<<<1, 1000>>>(x.data_ptr<float>(), coefficients.data(), y.data_ptr<float>(), 3);
    return y;
}

template <int N>
__device__ void tally(const float4& v, unsigned* bins) {
    const float parts[4] = {v.x, v.y, v.z, v.w};
    for (float part : parts) atomicAdd(&bins[part > 0 ? N - 1 : 0], 1u);  // here: host_bins
}
template <int N>
__global__ void tally_quads(const float4* x, unsigned* bins) { tally<N>(x[threadIdx.x], bins); }
torch::Tensor host_bins(torch::Tensor x) {
    unsigned bins[8] = {};
    prepare<<<1, 100>>>(x.data_ptr<float>());
    tally_quads<8><<<1, 250>>>(reinterpret_cast<const float4*>(x.data_ptr<float>()), bins);
    return x + (double)bins[0];
}

__global__ void add_quads(const float4* a, float4* y) {
    const float4 v = a[threadIdx.x];  // here: host_vector
    y[threadIdx.x] = make_float4(v.x + 1, v.y + 1, v.z + 1, v.w + 1);
}
torch::Tensor host_vector(torch::Tensor x) {
    // Large enough to get pages that no tensor had before.
    float4* staging = static_cast<float4*>(std::malloc(64 << 20));
    for (int i = 0; i < 250; i++) staging[i] = make_float4(1, 2, 3, 4);
    add_quads<<<1, 250>>>(staging, (float4*)x.data_ptr<float>());
    std::free(staging);
    return x;
}

__global__ void reciprocal(const float* work, float* y) { y[threadIdx.x] = 1 / work[threadIdx.x]; }  // here: freed_workspace
torch::Tensor freed_workspace(torch::Tensor x) {
    auto y = fresh(64);
    float* work = nullptr;
    cudaMalloc(&work, 64 * sizeof(float));
    cudaMemcpy(work, x.data_ptr<float>(), 64 * sizeof(float), cudaMemcpyDeviceToDevice);
    cudaFree(work);
    reciprocal<<<1, 64>>>(work, y.data_ptr<float>());
    return y;
}

template <typename V>
__device__ V twice(V v) { return make_float4(v.x + v.x, v.y + v.y, v.z + v.z, v.w + v.w); }
template <typename V>
__global__ void double_quads(V* work, V* y) {
    work[threadIdx.x] = twice(y[threadIdx.x]);  // here: freed_tensor
}
torch::Tensor freed_tensor(torch::Tensor x) {
    float* work;
    {
        auto temporary = fresh(400);
        prepare<<<1, 400>>>(x.data_ptr<float>());
        work = temporary.data_ptr<float>();
    }
    double_quads<float4><<<1, 100>>>((float4*)work, (float4*)x.data_ptr<float>());
    return x;
}

__device__ void raise_flag(int* flags, int which) { atomicOr(&flags[which / 32], 1 << which % 32); }  // here: freed_flags
__global__ void flag_all(int* flags) { raise_flag(flags, threadIdx.x); }
torch::Tensor freed_flags(torch::Tensor x) {
    int* flags;
    cudaMalloc((void**)&flags, 16);
    cudaMemset(flags, 0, 16);
    flag_all<<<1, 32>>>(flags);
    cudaFree(flags);
    flag_all<<<1, 128>>>(flags);
    return x;
}

__global__ void first_half(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 2) y[i] = x[i];
}
torch::Tensor half_written(torch::Tensor x) {
    auto y = torch::empty_like(x);
    first_half<<<10, 100>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

template <typename T> __device__ T negated(T v) { return {-v.x, -v.y, -v.z, -v.w}; }
template <typename T>
__global__ void negate_quads(const T* x, T* y, int quads) {
    const int q = threadIdx.x + blockIdx.x * blockDim.x;
    if (q < quads) y[q] = negated(x[q]);
}
__global__ void maximum(const float* x, int* most, int n) { atomicMax(most, (int)x[threadIdx.x]); }
torch::Tensor tail_unwritten(torch::Tensor x) {
    auto head = x.narrow(0, 0, 998).contiguous(), y = fresh(998);
    auto most = torch::zeros({1}, x.options().dtype(torch::kInt));
    maximum<<<1, 998>>>(head.data_ptr<float>(), most.data_ptr<int>(), 998);
    negate_quads<float4><<<2, 128>>>((const float4*)head.data_ptr<float>(), (float4*)y.data_ptr<float>(), 998 / 4);
    return y;
}

__global__ void far_away(float4* y, long long stride) {
    y[(threadIdx.x + 1) * stride] = make_float4(1, 1, 1, 1);  // here: wild_index
}
torch::Tensor wild_index(torch::Tensor x) {
    far_away<<<1, 3>>>(reinterpret_cast<float4*>(x.data_ptr<float>()), -(1ll << 37));
    return x;
}

template <typename T> __device__ T* slot(long long address) { return reinterpret_cast<T*>(address); }
template <typename T> __global__ void through_number(const T* x, long long address) {
    atomicAdd(slot<T>(address), x[0]);  // here: wild_pointer
}
torch::Tensor wild_pointer(torch::Tensor x) {
    prepare<<<1, 10>>>(x.data_ptr<float>());
    through_number<float><<<1, 1>>>(x.data_ptr<float>(), 0x123456789ab8ll);
    return x;
}

__global__ void shifted_quads(const float* x, float* y) {
    const float4 v = *reinterpret_cast<const float4*>(x + 4 * threadIdx.x + 1);  // here: misaligned_read
    y[threadIdx.x] = v.x + v.w;
}
torch::Tensor misaligned_read(torch::Tensor x) {
    auto y = fresh(200);
    shifted_quads<<<1, 200>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void packed_sum(const float* x, unsigned* header) {
    // The 64-bit total stands behind a 32-bit count.
    atomicAdd(reinterpret_cast<unsigned long long*>(header + 1), (unsigned long long)(x[threadIdx.x] > 0));  // here: misaligned_atomic
}
torch::Tensor misaligned_atomic(torch::Tensor x) {
    auto header = torch::zeros({4}, x.options().dtype(torch::kInt));
    packed_sum<<<1, 40>>>(x.data_ptr<float>(), (unsigned*)header.data_ptr<int>());
    return header;
}

__global__ void plain_total(const float* x, float* total) {
    *total += x[blockIdx.x * blockDim.x + threadIdx.x];  // here: racing_sum
}
torch::Tensor racing_sum(torch::Tensor x) {
    auto total = torch::zeros({1}, x.options());
    plain_total<<<1000, 1>>>(x.data_ptr<float>(), total.data_ptr<float>());
    return total;
}

__global__ void clear_and_count(const float* x, int* count) {
    if (threadIdx.x == 0) *count = 0;  // here: racing_clear
    __syncthreads();
    if (x[blockIdx.x * blockDim.x + threadIdx.x] > 0) atomicAdd(count, 1);
}
torch::Tensor racing_clear(torch::Tensor x) {
    auto count = torch::zeros({1}, x.options().dtype(torch::kInt));
    clear_and_count<<<10, 100>>>(x.data_ptr<float>(), count.data_ptr<int>());
    return count;
}

template <typename T> __device__ T blend(T a, T b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
template <typename T>
__global__ void overlapping_tiles(const T* x, T* y, int width) {
    // Neighbouring blocks share a quad.
    const int q = blockIdx.x * (width - 1) + threadIdx.x;
    y[q] = blend(x[q], T{(float)blockIdx.x, 1.f, 1.f, 1.f});  // here: racing_tiles
}
torch::Tensor racing_tiles(torch::Tensor x) {
    prepare<<<1, 20>>>(x.data_ptr<float>());
    auto y = torch::zeros_like(x);
    overlapping_tiles<float4><<<8, 30>>>((const float4*)x.data_ptr<float>(), (float4*)y.data_ptr<float>(), 30);
    return y;
}

__device__ float weights[5] = {1, 4, 6, 4, 1};
__global__ void binomial(const float* x, float* y, int n) {
    const int i = threadIdx.x;
    float s = 0;
    for (int k = 0; k < 5; k++) s += weights[k + i % 2] * x[i];  // here: table_index
    y[i] = s;
}
torch::Tensor table_index(torch::Tensor x) {
    auto y = fresh(64);
    binomial<<<1, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), 64);
    return y;
}

template <int N>
__device__ float insert(float (&best)[N], float v) {
    int place = N;
    while (place > 0 && best[place - 1] < v) place--;
    best[place] = v;  // here: local_index
    return best[0];
}
template <int N>
__global__ void top_values(const float* x, float* y, int n) {
    float best[N];
    for (int k = 0; k < N; k++) best[k] = -1e30f;
    float top = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) top = insert<N>(best, x[i]);
    y[threadIdx.x] = top + best[N - 1];
}
torch::Tensor local_index(torch::Tensor x) {
    auto y = fresh(32);
    prepare<<<1, 50>>>(x.data_ptr<float>());
    top_values<4><<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), 1000);
    return y;
}
