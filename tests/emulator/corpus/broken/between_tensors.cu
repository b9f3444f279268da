// Accesses through the pointer of one tensor that would end up in another one: memory that is right beside it
// on a GPU. Some of the tensors are factories', some are what torch's operators return.
#include <torch/extension.h>
#include <vector>

__global__ void backward_difference(const float* a, const float* b, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a[i + n] - b[i];  // here: next_tensor
}
torch::Tensor next_tensor(torch::Tensor x) {
    auto a = x * 2, b = x + 1, y = torch::empty_like(x);
    backward_difference<<<8, 128>>>(a.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

template <typename T>
__device__ T earlier(const T* p, int i, int n) { return p[i - n]; }  // here: earlier_tensor
template <typename T>
__global__ void running_mean(const T* a, const T* b, T* y, int n) {
    const int i = threadIdx.x;
    if (i < n) y[i] = (a[i] + earlier(b, i, n)) / 2;
}
torch::Tensor earlier_tensor(torch::Tensor x) {
    auto a = x.narrow(0, 0, 300).clone(), b = x.narrow(0, 300, 300).clone(), y = torch::empty_like(a);
    running_mean<float><<<1, 320>>>(a.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), 300);
    return y;
}

__global__ void add_row_bias(const float4* bias, float4* y, int quads_in_row) {
    const int quad = threadIdx.x, row = blockIdx.x;
    const float4 b = bias[quad];
    float4* to = y + row * (4 * quads_in_row) + quad;  // the stride in floats, on a pointer to four
    if (quad < quads_in_row) *to = make_float4(b.x + row, b.y, b.z, b.w);  // here: stride_in_floats
}
torch::Tensor stride_in_floats(torch::Tensor x) {
    auto y = torch::zeros({50, 20}, x.options()), bias = x.narrow(0, 0, 20) + 1;
    auto kept = torch::zeros({50, 80}, x.options());
    add_row_bias<<<50, 5>>>((const float4*)bias.data_ptr<float>(), (float4*)y.data_ptr<float>(), 5);
    return y + kept.sum();
}

__global__ void vote(const float* x, int* votes, int classes) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(votes + classes * 1000 * (x[i] > 2.f) + i % classes, 1);  // here: far_votes
}
torch::Tensor far_votes(torch::Tensor x) {
    auto ints = x.options().dtype(torch::kInt);
    auto votes = torch::zeros({50}, ints), others = torch::zeros({100000}, ints);
    x.index_put_({7}, 3.0);
    vote<<<10, 100>>>(x.data_ptr<float>(), votes.data_ptr<int>(), 50);
    return votes + others.sum();
}

__global__ void weigh(const float* x, const float* weights, float* y) {
    y[threadIdx.x] = weights[threadIdx.x % 8] * x[threadIdx.x];  // here: host_weights
}
torch::Tensor host_weights(torch::Tensor x) {
    { auto gone = x * 3; }  // what the host allocates next may have been this one's
    std::vector<float> weights(1000, 0.5f);
    auto y = torch::empty_like(x);
    weigh<<<1, 1000>>>(x.data_ptr<float>(), weights.data(), y.data_ptr<float>());
    return y;
}
