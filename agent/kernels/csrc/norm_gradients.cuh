// LayerNorm and RMSNorm backward, also of x + residual: every gradient from a single read of the tensors.
//
// A persistent grid shares out the rows. A block consists of teams that handle one row at a time: some lanes of a warp
// for a short row, some warps for a longer one. A thread keeps to its columns. It prefetches its own packs of the
// team's next rows to shared memory (cp.async) while it computes dx of the current row.
//
// A thread accumulates its terms of the parameters' gradients in registers. Each block writes one row of partial sums,
// which another kernel adds in a fixed order. There are no atomics, so that runs agree to the bit.
//
// Rows that are not whole packs begin at different offsets within a pack. A team only handles rows of the same offset,
// so that its threads keep to their columns there too.
#pragma once

#include "launched.cuh"
#include "row_norm_backward_long.cuh"
#include "row_teams.cuh"

namespace kernelwright {

constexpr int kMostStages = 3;      // rows of a team in shared memory: the current one and those in flight
constexpr int kMostBlocks = 2;      // resident blocks per SM
constexpr int kStaticBytes = 2048;  // bytes of an SM's shared memory, used by a block besides its rows

// Arguments of the backward kernel. Tensors are [rows, packs].
template <typename T, int V>
struct GradientArguments {
    const Pack<T, V>* dy;
    const Pack<T, V>* x;
    const Pack<T, V>* own;  // gradient of the output x + residual, or null
    Parameter weight;
    const float* means;
    const float* rstds;
    Pack<T, V>* dx;         // gradient of the input, or null
    float* partials;        // [2][blocks][length]: sums of dy * xhat, then of dy; or null
    int rows, length;
    int packs;         // maximum number of packs of a row
    int team;          // threads of a team
    int stages;        // rows of a team in shared memory
    float share;       // 1 / length
};

// Threads that accumulate many packs in registers keep the weights in shared memory, in their storage type.
template <typename Team>
constexpr bool kScaleApart = Team::kPacks >= 4;

// Four floats, aligned to 16 bytes.
using Quad = Pack<float, kVector<float>>;
constexpr int kQuad = kVector<float>;

// Returns the number of elements in front of row `row` in the row's first pack; 0 for a negative row.
template <int V>
__device__ __forceinline__ int before_row(int row, int length) {
    return row < 0 ? 0 : int(unsigned(row) * unsigned(length) % V);
}

// Adds the sums of the teams in a fixed order, first over the lanes of a warp, and writes the block's row of partial
// sums. `table` reuses the shared memory of the rows. It has room for all sums of each warp, or each larger team, as
// floats.
template <typename Team, bool kCentred, typename T, int V>
__device__ __forceinline__ void leave_block_sums(
    const GradientArguments<T, V>& args, Pack<float, V> (&of_weight)[Team::kPacks],
    Pack<float, V> (&of_bias)[Team::kPacks], Quad* table, int first, int step) {
    constexpr int kPacks = Team::kPacks, kKinds = kCentred ? 2 : 1;
    const int packs = args.packs, length = args.length, lane = int(threadIdx.x) % kWarp;
    const int threads_of_source = max(step, kWarp), sources = int(blockDim.x) / threads_of_source;
    const int source = int(threadIdx.x) / threads_of_source;
    #pragma unroll
    for (int offset = Team::kTeam == 0 ? kWarp : Team::kTeam; offset < kWarp; offset *= 2) {
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                of_weight[u].v[k] += __shfl_xor_sync(0xffffffff, of_weight[u].v[k], offset);
                if (kCentred) of_bias[u].v[k] += __shfl_xor_sync(0xffffffff, of_bias[u].v[k], offset);
            }
        }
    }
    const auto partials = [&](int kind) {
        return args.partials + (int64_t{kind} * gridDim.x + blockIdx.x) * length;
    };
    if (sources == 1 && !Team::kShifted) {
        each_pack<kPacks>(first, step, packs, [&](int u, int at) {
            reinterpret_cast<Pack<float, V>*>(partials(0))[at] = of_weight[u];
            if (kCentred) reinterpret_cast<Pack<float, V>*>(partials(1))[at] = of_bias[u];
        });
        return;
    }
    constexpr int kQuads = V / kQuad;
    const int room = packs * kQuads;
    __syncthreads();  // all threads have read the rows that `table` overwrites
    if (Team::kTeam == 0 || lane < Team::kTeam) {
        each_pack<kPacks>(first, step, packs, [&](int u, int at) {
            #pragma unroll
            for (int i = 0; i < kQuads; ++i) {
                Quad* to = table + source * room + at * kQuads + i;
                to[0] = reinterpret_cast<const Quad*>(of_weight[u].v)[i];
                if (kCentred) to[sources * room] = reinterpret_cast<const Quad*>(of_bias[u].v)[i];
            }
        });
    }
    __syncthreads();
    if constexpr (Team::kShifted) {
        const int last = args.rows - 1 - int(blockIdx.x) * sources;  // first row of the first team
        for (int i = int(threadIdx.x); i < kKinds * length; i += int(blockDim.x)) {
            const int kind = i < length ? 0 : 1, column = i - kind * length;
            const float* from = reinterpret_cast<const float*>(table + kind * sources * room) + column;
            float sum = 0.0f;
            #pragma unroll 4
            for (int other = 0; other < sources; ++other) {
                sum += from[other * room * kQuad + before_row<V>(last - other, length)];
            }
            partials(kind)[column] = sum;
        }
    } else {
        const int quads = length / kQuad;
        for (int i = int(threadIdx.x); i < kKinds * quads; i += int(blockDim.x)) {
            const int kind = i < quads ? 0 : 1, at = i - kind * quads;
            const Quad* from = table + kind * sources * room + at;
            Quad sum = {};
            #pragma unroll 4
            for (int other = 0; other < sources; ++other) {
                const Quad one = from[other * room];
                #pragma unroll
                for (int k = 0; k < kQuad; ++k) sum.v[k] += one.v[k];
            }
            reinterpret_cast<Quad*>(partials(kind))[at] = sum;
        }
    }
}

template <typename Team, bool kCentred, bool kSum, typename T, int V>
__global__ void __launch_bounds__(Team::kThreads, Team::kBlocks) norm_gradients(GradientArguments<T, V> args) {
    constexpr int kPacks = Team::kPacks;
    extern __shared__ uint4 memory[];
    // Double-buffered: a warp may be in the next row before another has read the sums of the current row.
    __shared__ RowSums of_warp[2][kMaxWarps];
    const int step = Team::kTeam == 0 ? args.team : Team::kTeam;
    const int team = int(threadIdx.x) / step, teams = int(blockDim.x) / step;
    const int stride = int(gridDim.x) * teams, rows = args.rows;
    // Handles rows in reverse order: what the previous kernel wrote last is still in L2.
    int row = rows - 1 - (int(blockIdx.x) * teams + team);
    const int before = Team::kShifted ? before_row<V>(row, args.length) : 0;  // the same for each row of the team
    const int first = int(threadIdx.x) - team * step;
    const int packs = Team::kShifted ? (before + args.length + V - 1) / V : args.packs;
    const RowRing<kSum ? 3 : 2, Team, T, V> ring = {
        reinterpret_cast<Pack<T, V>*>(memory) + threadIdx.x, first, step, packs, before, before + args.length};
    const auto begin_of = [&](int of) {
        return Team::kShifted ? (int64_t{of} * args.length - before) / V : int64_t{of} * packs;
    };
    const bool adds = kSum && args.own != nullptr;
    if (threadIdx.x % (kLineBytes / sizeof(Pack<T, V>)) == 0) {
        for (int stage = 0; stage < args.stages; ++stage) {
            const int of = row - stage * stride;
            each_pack<kPacks>(first, step, of >= 0 ? packs : 0, [&](int, int at) {
                bring_near(args.dy + begin_of(of) + at);
                bring_near(args.x + begin_of(of) + at);
                if (adds) bring_near(args.own + begin_of(of) + at);
            });
        }
    }
    await_earlier();

    const auto fetch = [&](int stage, int row) {
        if (row >= 0) {
            const int64_t begin = begin_of(row);
            ring.copy(stage, 0, args.dy + begin);
            ring.copy(stage, 1, args.x + begin);
            if (adds) ring.copy(stage, 2, args.own + begin);
        } else {
            ring.clear(stage, 0);
        }
        copies_asked_for();
    };
    for (int stage = 0; stage < args.stages; ++stage) {
        ring.clear(stage, (packs - first + step - 1) / step);  // zeros where no row has packs
        fetch(stage, row - stage * stride);
    }
    float mean_next = 0.0f, rstd_next = 0.0f;
    const auto statistics = [&](int of) {
        mean_next = kCentred && of >= 0 ? args.means[of] : 0.0f;
        rstd_next = of >= 0 ? args.rstds[of] : 0.0f;
    };
    statistics(row);
    Pack<float, V> held_scale[kPacks], of_weight[kPacks] = {}, of_bias[kPacks] = {};
    const Parameter apart = {&ring.at(args.stages, 0, 0) - threadIdx.x, args.weight.wide};
    const auto place = [](int u) { return u * Team::kThreads + int(threadIdx.x); };
    #pragma unroll
    for (Pack<float, V>& scale : held_scale) scale = filled<float, V>(1.0f);
    if (args.weight.values != nullptr) {
        with_parameters<T>(args.weight.wide, [&](auto parameter) {
            each_pack<kPacks>(first, step, packs, [&](int u, int at) {
                using P = decltype(parameter);
                if constexpr (Team::kShifted) {
                    #pragma unroll
                    for (int k = 0; k < V; ++k) {
                        const int column = min(max(at * V + k - before, 0), args.length - 1);
                        held_scale[u].v[k] = to_float(static_cast<const P*>(args.weight.values)[column]);
                    }
                } else {
                    held_scale[u] = parameter_pack<P, V>(args.weight.values, at);
                }
            });
        });
    }
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        if (kScaleApart<Team>) apart.template set_pack<T>(place(u), held_scale[u]);
    }
    const auto scale_of = [&](int u) {
        return kScaleApart<Team> ? apart.template pack<T, V>(place(u)) : held_scale[u];
    };
    int stage = 0, turn = 0;
    // All teams iterate as long as the first team has a row, since they meet at barriers.
    for (; row + team >= 0; row -= stride) {
        // Calls copies_wait with constant arguments: a variable count would compile to a branch for every possible
        // value, executed in each row.
        static_assert(kMostStages == 3);
        args.stages == 3 ? copies_wait(2) : args.stages == 2 ? copies_wait(1) : copies_wait(0);
        ring.cut(stage);
        const float mean = mean_next, rstd = rstd_next;
        statistics(row - stride);
        RowSums sums = {0.0f, 0.0f};
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            if (kScaleApart<Team>) __syncwarp();
            const Pack<float, V> dy = widened(ring.at(stage, 0, u)), x = widened(ring.at(stage, 1, u));
            const Pack<float, V> scale = scale_of(u);
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                const float g = dy.v[k] * scale.v[k], normal = (x.v[k] - mean) * rstd;
                of_weight[u].v[k] = fmaf(dy.v[k], normal, of_weight[u].v[k]);
                if (kCentred) of_bias[u].v[k] += dy.v[k];
                if (kCentred) sums.plain += g;
                sums.with_normal = fmaf(g, normal, sums.with_normal);
            }
        }
        if (args.dx != nullptr) {
            if constexpr (Team::kTeam == 0) {
                sums = warps_sums<kCentred>(sums, of_warp[turn], team * step, step);
            } else {
                sums = lanes_sums<Team::kTeam, kCentred>(sums);
            }
            read_again();
            const float shift = -rstd * args.share * sums.plain, slope = -rstd * rstd * args.share * sums.with_normal;
            Pack<T, V>* to = args.dx + begin_of(row);
            const int end = row >= 0 ? packs : 0;
            #pragma unroll
            for (int u = 0; u < kPacks; ++u) {
                if (kScaleApart<Team>) __syncwarp();
                const Pack<float, V> dy = widened(ring.at(stage, 0, u)), x = widened(ring.at(stage, 1, u));
                const Pack<float, V> scale = scale_of(u);
                Pack<float, V> made;
                #pragma unroll
                for (int k = 0; k < V; ++k) {
                    const float g = dy.v[k] * scale.v[k], off = x.v[k] - mean;
                    made.v[k] = fmaf(g, rstd, kCentred ? fmaf(off, slope, shift) : off * slope);
                }
                if (adds) {
                    const Pack<float, V> own = widened(ring.at(stage, 2, u));
                    #pragma unroll
                    for (int k = 0; k < V; ++k) made.v[k] += own.v[k];
                }
                const int at = first + u * step;
                if (at >= end) continue;
                if (Team::kShifted && (at * V < before || (at + 1) * V > before + args.length)) {
                    #pragma unroll
                    for (int k = 0; k < V; ++k) {
                        const int column = at * V + k - before;
                        T* of_row = reinterpret_cast<T*>(args.dx) + int64_t{row} * args.length;
                        if (column >= 0 && column < args.length) of_row[column] = from_float<T>(made.v[k]);
                    }
                } else {
                    to[at] = narrowed<T>(made);
                }
            }
        }
        fetch(stage, row - args.stages * stride);
        stage = stage + 1 == args.stages ? 0 : stage + 1;
        turn ^= 1;
    }
    let_next_begin();
    if (args.partials == nullptr) return;
    copies_wait(0);
    leave_block_sums<Team, kCentred>(args, of_weight, of_bias, reinterpret_cast<Quad*>(memory), first, step);
}

// Distribution of the rows over blocks and teams.
struct GradientPlan {
    int team, threads, blocks;  // threads of a team and of a block
    int stages;                 // rows of a team in shared memory; 0 if the rows do not fit
    int64_t bytes;              // shared memory of a block
};

// Returns the maximum number of packs of a row, for any offset of the row within a pack.
template <typename Team, int V>
int64_t packs_of(int64_t length) { return Team::kShifted ? (length + 2 * V - 2) / V : length / V; }

template <typename Team, bool kCentred, bool kSum, typename T, int V>
GradientPlan gradient_plan(int64_t rows, int64_t packs, bool wide_weight, int64_t device) {
    const auto of_device = [&](cudaDeviceAttr which) {
        int value = 0;
        return cudaDeviceGetAttribute(&value, which, int(device)) == cudaSuccess ? value : 0;
    };
    GradientPlan plan = {Team::team(packs), 0, 0, 0, 0};
    if (packs > Team::kPacks * plan.team || plan.team > Team::kThreads) return plan;
    const int teams = Team::kThreads / plan.team, sources = Team::kThreads / std::max(plan.team, kWarp);
    plan.threads = teams * plan.team;
    static_assert(Team::kBlocks <= kMostBlocks);
    plan.blocks = int(std::min<int64_t>(
        (rows + teams - 1) / teams, of_device(cudaDevAttrMultiProcessorCount) * Team::kBlocks));
    if (Team::kShifted) plan.blocks = std::max(plan.blocks / V, 1) * V;  // so that all rows of a team have the same offset
    const int64_t room = std::min<int64_t>(
        of_device(cudaDevAttrMaxSharedMemoryPerBlockOptin),
        of_device(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / Team::kBlocks) - kStaticBytes;
    const int64_t stage = (kSum ? 3 : 2) * Team::kPacks * Team::kThreads * int64_t{sizeof(Pack<T, V>)};
    const int64_t of_source = (kCentred ? 2 : 1) * V * packs * int64_t{sizeof(float)};
    const int64_t table = sources == 1 && !Team::kShifted ? 0 : sources * of_source;
    const int64_t each = wide_weight ? V * int64_t{sizeof(float)} : int64_t{sizeof(Pack<T, V>)};
    const int64_t scales = kScaleApart<Team> ? Team::kPacks * Team::kThreads * each : 0;
    if (room < table) return plan;
    plan.stages = int(std::min<int64_t>((room - scales) / stage, kMostStages));
    plan.bytes = std::max(plan.stages * stage + scales, table);
    return plan;
}

template <typename Team, bool kCentred, bool kSum, typename T, int V>
cudaError_t launch_gradients_of(const AddRowBackward& args, const GradientPlan& plan) {
    const GradientArguments<T, V> given = {
        static_cast<const Pack<T, V>*>(args.dy),
        static_cast<const Pack<T, V>*>(args.added),
        static_cast<const Pack<T, V>*>(args.dadded),
        weight_of(args),
        args.mean,
        args.rstd,
        static_cast<Pack<T, V>*>(args.dx),
        wants_parameters(args) ? static_cast<float*>(args.workspace) : nullptr,
        int(args.rows),
        int(args.length),
        int(packs_of<Team, V>(args.length)),
        plan.team,
        plan.stages,
        1.0f / float(args.length)};
    const auto kernel = norm_gradients<Team, kCentred, kSum, T, V>;
    const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(plan.bytes));
    if (status != cudaSuccess) return status;
    return launched_with(kernel, unsigned(plan.blocks), unsigned(plan.threads), plan.bytes, args.stream, given);
}

}  // namespace kernelwright
