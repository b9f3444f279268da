// Apart from the others: NVIDIA's compiler, where there is one, refuses this at build time.
#include <torch/extension.h>

__global__ void two_big_tiles(const float* x, float* y) {  // refused: static_beyond_the_limit
    __shared__ float a[80][80];
    __shared__ float b[80][80];  // here: static_beyond_the_limit
    a[0][threadIdx.x] = b[1][threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = a[threadIdx.x % 80][79 - threadIdx.x] + b[threadIdx.x % 80][79 - threadIdx.x];
}
torch::Tensor static_beyond_the_limit(torch::Tensor x) {
    auto y = torch::zeros({80}, x.options());
    two_big_tiles<<<1, 80>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}
