// y = alpha * a * b in float arithmetic for a mostly zero a, on every GPU. Each row of a selects rows of b by its nonzero values, and
// their multiples are added in the order of the depth K.
//
// A block has a few rows and some of the columns. It walks along K in pieces. For each piece it lists the depths at which any of its rows
// is nonzero, and each thread processes its columns with that list; adjacent rows are often nonzero at the same depths. Between pieces
// the sums are kept in y.
//
// Zero times infinity or NaN is NaN. If b may hold an infinity or NaN, another kernel computes all of y (launch.cuh).
#pragma once

#include "plain_tile.cuh"

namespace kernelwright::matmul {

constexpr int kSparseThreads = 256;
constexpr int kSparseColumns = 4 * kSparseThreads;  // columns per block and step
constexpr int kSparseValues = 8192;                 // values of a block's rows per piece
constexpr int kSparseLoads = kSparseValues / kSparseThreads;

template <int ROWS>
struct SparseRows {
    static constexpr int kPiece = kSparseValues / ROWS;  // depths per piece
    float values[ROWS][kPiece];
    unsigned bits[kPiece / 32];  // one bit per depth: the value of any row is nonzero there
    uint16_t depths[kPiece];     // the depths at which any row is nonzero
    int count;                   // number of depths in the list
};

// Lists the depths whose bits are set, in order. One warp calls it.
template <int ROWS>
__device__ __forceinline__ void list_depths(SparseRows<ROWS>& shared) {
    const int lane = threadIdx.x % 32;
    int listed = 0;
    for (int word = lane; word - lane < SparseRows<ROWS>::kPiece / 32; word += 32) {
        unsigned left = word < SparseRows<ROWS>::kPiece / 32 ? shared.bits[word] : 0;
        const int own = __popc(left);
        int past = own;  // inclusive prefix sum over the lanes
        for (int lanes = 1; lanes < 32; lanes *= 2) {
            const int other = __shfl_up_sync(0xffffffffu, past, lanes);
            if (lane >= lanes) past += other;
        }
        int at = listed + past - own;
        listed += __shfl_sync(0xffffffffu, past, 31);
        for (; left != 0; left &= left - 1) shared.depths[at++] = static_cast<uint16_t>(word * 32 + __ffs(static_cast<int>(left)) - 1);
    }
    if (lane == 0) shared.count = listed;
}

// Loads four adjacent values of a row of b, of which `there` exist.
__device__ __forceinline__ void load_columns(float (&four)[4], const float* from, int64_t step, int there, bool by_fours) {
    if (by_fours) {
        const float4 all = __ldg(reinterpret_cast<const float4*>(from));
        four[0] = all.x, four[1] = all.y, four[2] = all.z, four[3] = all.w;
        return;
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = i < there ? __ldg(from + i * step) : 0.0f;
}

__device__ __forceinline__ void store_columns(float* y, const float (&four)[4], int there, bool by_fours, bool adds) {
    if (by_fours) {
        const float4 old = adds ? *reinterpret_cast<const float4*>(y) : float4{};
        *reinterpret_cast<float4*>(y) = {old.x + four[0], old.y + four[1], old.z + four[2], old.w + four[3]};
        return;
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (i < there) y[i] = adds ? y[i] + four[i] : four[i];
    }
}

// Computes y for ROWS rows and `columns` columns per block, a multiple of kSparseColumns. a and b are kWhole.
template <int ROWS>
__global__ void __launch_bounds__(kSparseThreads) matmul_sparse(const __grid_constant__ Forward args, int64_t columns) {
    constexpr int kPiece = SparseRows<ROWS>::kPiece;
    __shared__ SparseRows<ROWS> shared;
    if (args.c != nullptr && !isfinite(__ldg(args.c))) return;
    const int thread = threadIdx.x;
    const int64_t strips = ceil_div(args.n, columns), blocks = ceil_div(args.m, ROWS) * strips;
    const int64_t batch = blockIdx.x / blocks, first_row = blockIdx.x % blocks / strips * ROWS;
    const int64_t first_column = blockIdx.x % strips * columns + 4 * thread, past = min(args.n, (blockIdx.x % strips + 1) * columns);
    const float* a = args.a + batch * args.a_batch + first_row * args.a_row;
    const float* b = args.b + batch * args.b_batch;
    float* y = args.y + (batch * args.m + first_row) * args.n;
    const int rows = static_cast<int>(min(int64_t{ROWS}, args.m - first_row));
    const bool by_rows = args.a_row == 1 && args.a_depth != 1;
    const bool by_fours = args.b_column == 1 && args.n % 4 == 0 && args.b_depth % 4 == 0 &&
                          (reinterpret_cast<uintptr_t>(b) | reinterpret_cast<uintptr_t>(y)) % sizeof(float4) == 0;
    const auto alpha = static_cast<float>(args.alpha);
    bool begun = false;  // y already holds partial sums
    const auto add_up = [&](int64_t begin, int count) {
        for (int64_t column = first_column; column < past; column += kSparseColumns) {
            const int there = static_cast<int>(min(int64_t{4}, past - column));
            const float* from = b + begin * args.b_depth + column * args.b_column;
            float sum[ROWS][4] = {};
            #pragma unroll 8
            for (int i = 0; i < count; ++i) {
                const int depth = shared.depths[i];
                float four[4];
                load_columns(four, from + depth * args.b_depth, args.b_column, there, by_fours);
                #pragma unroll
                for (int row = 0; row < ROWS; ++row) {
                    const float value = shared.values[row][depth];
                    #pragma unroll
                    for (int j = 0; j < 4; ++j) sum[row][j] = fmaf(value, four[j], sum[row][j]);
                }
            }
            #pragma unroll
            for (int row = 0; row < ROWS; ++row) {
                #pragma unroll
                for (int j = 0; j < 4; ++j) sum[row][j] *= alpha;
                if (row < rows) store_columns(y + row * args.n + column, sum[row], there, by_fours, begun);
            }
        }
        begun = true;
    };
    for (int64_t begin = 0; begin < args.k; begin += kPiece) {
        float v[kSparseLoads];
        unsigned any = 0;
        #pragma unroll
        for (int i = 0; i < kSparseLoads; ++i) {
            const int at = i * kSparseThreads + thread, row = by_rows ? at % ROWS : at / kPiece, depth = by_rows ? at / ROWS : at % kPiece;
            const bool is_one = row < rows && begin + depth < args.k;
            v[i] = is_one ? __ldg(a + row * args.a_row + (begin + depth) * args.a_depth) : 0.0f;
            any |= v[i] != 0.0f ? 1u << i : 0u;
        }
        if (!__syncthreads_or(any != 0)) continue;  // also a barrier: all threads are done with the previous piece
        for (int i = thread; i < kPiece / 32; i += kSparseThreads) shared.bits[i] = 0;
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < kSparseLoads; ++i) {
            const int at = i * kSparseThreads + thread, row = by_rows ? at % ROWS : at / kPiece, depth = by_rows ? at / ROWS : at % kPiece;
            shared.values[row][depth] = v[i];
            if ((any >> i & 1) != 0) atomicOr(&shared.bits[depth / 32], 1u << depth % 32);
        }
        __syncthreads();
        if (thread < 32) list_depths(shared);
        __syncthreads();
        add_up(begin, shared.count);
    }
    if (!begun) add_up(0, 0);
}

template <int ROWS>
cudaError_t multiply_sparse_rows(const Forward& args) {
    // Wide enough that a block reads at most twice as much of a row of a as it writes of y.
    const int64_t columns = ceil_div(std::max(args.k / 2, int64_t{1}), kSparseColumns) * kSparseColumns;
    const int64_t blocks = args.batch * ceil_div(args.m, ROWS) * ceil_div(args.n, columns);
    if (blocks > kMostBlocks) return cudaErrorInvalidValue;
    matmul_sparse<ROWS><<<static_cast<unsigned>(blocks), kSparseThreads, 0, args.stream>>>(args, columns);
    return cudaGetLastError();
}

// Chooses the rows per block: eight adjacent rows of a fill a sector of 32 bytes if a is contiguous along rows.
inline cudaError_t multiply_sparse(const Forward& args) {
    return args.a_row == 1 && args.a_depth != 1 ? multiply_sparse_rows<8>(args) : multiply_sparse_rows<2>(args);
}

}  // namespace kernelwright::matmul
