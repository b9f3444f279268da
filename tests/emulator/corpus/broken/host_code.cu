// What host code forgets about: torch's stream, and the errors that CUDA's calls leave behind.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

template <typename T>
__global__ void block_mean(const T* x, T* means) {
    extern __shared__ float parts[];
    parts[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) parts[threadIdx.x] += parts[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) means[blockIdx.x] = parts[0] / blockDim.x;
}
__global__ void subtract_mean(const float* x, const float* means, float* y) {
    y[blockIdx.x * blockDim.x + threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x] - means[blockIdx.x];
}
torch::Tensor no_stream(torch::Tensor x) {
    auto means = torch::empty({7}, x.options()), y = torch::empty({896}, x.options());
    block_mean<float><<<7, 128, 128 * sizeof(float)>>>(x.data_ptr<float>(), means.data_ptr<float>());  // here: no_stream
    subtract_mean<<<7, 128, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), means.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void fourth_power(float* x) { x[threadIdx.x] *= x[threadIdx.x] * x[threadIdx.x] * x[threadIdx.x]; }
torch::Tensor stream_zero(torch::Tensor x) {
    const cudaStream_t stream = 0;
    fourth_power<<<1, 1000, 0, stream>>>(x.data_ptr<float>());  // here: stream_zero
    return x;
}

__global__ void shift_up(const float* x, float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] + 10; }
torch::Tensor launch_not_asked(torch::Tensor x) {
    auto y = x.clone();
    shift_up<<<1, 2000, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());  // here: launch_not_asked
    return y;
}

template <int N>
__global__ void reverse(const float* x, float* y) {
    extern __shared__ float copy[];
    copy[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = copy[N - 1 - threadIdx.x];
}
torch::Tensor limit_not_raised(torch::Tensor x) {
    auto y = torch::empty({500}, x.options());
    cudaFuncSetAttribute(reverse<500>, cudaFuncAttributeMaxDynamicSharedMemorySize, 300 * 1024);  // here: limit_not_raised
    reverse<500><<<1, 500, 2000, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__constant__ float taps[4];
__global__ void filter(const float* x, float* y) {
    float sum = 0;
    for (int k = 0; k < 4; k++) sum += taps[k] * x[threadIdx.x + k];
    y[threadIdx.x] = sum;
}
__global__ void halve(float* y) { y[threadIdx.x] /= 2; }
torch::Tensor taps_not_set(torch::Tensor x) {
    const float values[5] = {1, 4, 6, 4, 1};
    auto y = torch::empty({900}, x.options());
    cudaMemcpyToSymbol(taps, values, sizeof(values));  // here: taps_not_set
    filter<<<1, 900, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>());
    halve<<<1, 900, 0, at::cuda::getCurrentCUDAStream()>>>(y.data_ptr<float>());
    return y;
}

torch::Tensor other_device(torch::Tensor x) {
    auto y = torch::empty_like(x);
    cudaSetDevice(1);  // here: other_device
    shift_up<<<1, 1000, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), 1000);
    return y;
}
