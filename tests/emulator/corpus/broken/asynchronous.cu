// Faults of copies that overlap with work.
#include <torch/extension.h>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

static torch::Tensor fresh(int n) { return torch::empty({n}, torch::TensorOptions().device(torch::kCUDA)); }
__global__ void clear_before(float* y) { y[threadIdx.x] = 0; }

template <typename V>
__device__ float folded(const V* tile, int k) { return tile[k].x + tile[k].w; }  // here: newest_group_not_waited
template <typename V>
__global__ void one_group_short(const V* x, float* y) {
    __shared__ V tile[2][32];
    for (int k = 0; k < 2; k++) {
        __pipeline_memcpy_async(&tile[k][threadIdx.x], x + 32 * k + threadIdx.x, sizeof(V));  // there: newest_group_not_waited
        __pipeline_commit();
    }
    __pipeline_wait_prior(1);  // 0 for the second tile
    __syncthreads();
    y[threadIdx.x] = folded(tile[0], 31 - threadIdx.x) + folded(tile[1], 31 - threadIdx.x);
}
torch::Tensor newest_group_not_waited(torch::Tensor x) {
    auto y = fresh(32);
    clear_before<<<1, 32>>>(y.data_ptr<float>());
    one_group_short<float4><<<1, 32>>>(reinterpret_cast<const float4*>(x.data_ptr<float>()), y.data_ptr<float>());
    return y;
}

__global__ void barrier_is_no_wait(const float* x, float* y, int n) {
    extern __shared__ float row[];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, row, x, n * sizeof(float));  // there: barrier_for_a_wait
    block.sync();
    y[threadIdx.x] = row[n - 1 - threadIdx.x];  // here: barrier_for_a_wait
}
torch::Tensor barrier_for_a_wait(torch::Tensor x) {
    auto y = fresh(64);
    barrier_is_no_wait<<<1, 64, 64 * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>(), 64);
    return y;
}
