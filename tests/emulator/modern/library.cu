// What libcu++ makes of mbarriers, bulk copies and tensor maps: barriers, pipelines with roles, the wrappers of cuda::ptx.
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda.h>
namespace cg = cooperative_groups;
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace cde = cuda::device::experimental;

extern "C" __global__ void bulk(const float* x, float* y) {
    __shared__ alignas(128) float tile[256];
    #pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        cde::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_global_to_shared(tile, x, sizeof tile, bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, sizeof tile);
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
    for (int i = threadIdx.x; i < 256; i += blockDim.x) tile[i] *= 2;
    cde::fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_shared_to_global(y, tile, sizeof tile);
        cde::cp_async_bulk_commit_group();
        cde::cp_async_bulk_wait_group_read<0>();
    }
}
extern "C" __global__ void pipe(const float* x, float* y, int steps) {
    constexpr int stages = 2;
    __shared__ alignas(16) float tile[stages][128];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    auto block = cg::this_thread_block();
    auto pipeline = cuda::make_pipeline(block, &state);
    float sum = 0;
    int fetched = 0;
    for (int i = 0; i < steps; i++) {
        for (; fetched < steps && fetched < i + stages; fetched++) {
            pipeline.producer_acquire();
            cuda::memcpy_async(block, tile[fetched % stages], x + fetched * 128, sizeof(float) * 128, pipeline);
            pipeline.producer_commit();
        }
        pipeline.consumer_wait();
        sum += tile[i % stages][127 - threadIdx.x];
        pipeline.consumer_release();
    }
    y[threadIdx.x] = sum;
}
extern "C" __global__ void roles(const float* x, float* y, int steps) {
    constexpr int stages = 2;
    __shared__ alignas(16) float tile[stages][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    auto block = cg::this_thread_block();
    const bool producer = threadIdx.x < 64;
    auto pipeline = cuda::make_pipeline(block, &state, producer ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
    float sum = 0;
    for (int i = 0; i < steps; i++) {
        if (producer) {
            pipeline.producer_acquire();
            cuda::memcpy_async(&tile[i % stages][threadIdx.x], x + i * 64 + threadIdx.x, sizeof(float), pipeline);
            pipeline.producer_commit();
        } else {
            pipeline.consumer_wait();
            sum += tile[i % stages][127 - threadIdx.x];
            pipeline.consumer_release();
        }
    }
    if (!producer) y[threadIdx.x - 64] = sum;
}
extern "C" __global__ void wrappers(const float* x, float* y) {
    using namespace cuda::ptx;
    __shared__ alignas(128) float tile[128];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {
        mbarrier_init(&bar, 1);
        fence_mbarrier_init(sem_release, scope_cluster);
        fence_proxy_async(space_shared);
        cp_async_bulk(space_cluster, space_global, tile, x, sizeof tile, &bar);
        mbarrier_arrive_expect_tx(sem_release, scope_cta, space_shared, &bar, sizeof tile);
    }
    __syncthreads();
    while (!mbarrier_try_wait_parity(sem_acquire, scope_cta, &bar, 0)) {}
    y[threadIdx.x] = tile[127 - threadIdx.x];
}
extern "C" __global__ void map2d(const __grid_constant__ CUtensorMap in, float* y) {
    __shared__ alignas(128) float tile[16][32];
    __shared__ barrier bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        cde::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        cde::cp_async_bulk_tensor_2d_global_to_shared(tile, &in, 0, 0, bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, sizeof tile);
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
    for (int i = threadIdx.x; i < 512; i += 128) y[i] = tile[i / 32][i % 32];
}
