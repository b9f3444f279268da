// What the split into two fp16 loses in a convolution, and tiles that are computed anew in float arithmetic where it shows.
//
// It shows where small values count because the large ones of a window meet zeros: the bound is that of
// matmul_fp32x3/csrc/anew_sm90.cuh, with the pixels' windows as a and the weight as b. And it shows where a sum has few products,
// which a float sum rounds as seldom: two fp16 hold 22 bits of a value, and the tensor cores cut off.
//
// Two kernels behind the convolution. The first compares each pixel's sums in a tile of 128 features with what its window's small
// values may have lost beside the largest, and where sums are small it counts a sample of their products; some features nearly
// always show that it is nothing. It lists the tiles where it may be more. The second goes through the windows of those where
// small values may have lost: where every half of a stage of such a pixel is dense, and the weight is too, sums are small because
// products of either sign cancel, which costs a float sum as much. The other tiles are computed anew.
#pragma once

#include "product_portable.cuh"
#include "product_sm90.cuh"

namespace kernelwright::conv {

constexpr int kLookedAt = 4;           // features at a time
constexpr int kSampled = 32;           // of the depth
constexpr int kAnewDepth = 128;        // that is added up by itself
constexpr float kNeeded = 46341.0f;    // 2^(26.5 - 11), of the powers of two that values are scaled by
constexpr float kLargest = 1 << 26;    // what the product of the largest two is of them, at least
constexpr int kFew = 18, kFewOfAll = 8;  // products of a sum that are more than half the error of a float sum; with lo * lo
static_assert(kTile == kSide && kPlainThreads == kGatherers);

// Of so few halves that are not dense nothing is said, as in matmul_fp32x3.
__device__ __forceinline__ bool is_weight_sparse(const Conv& p) {
    const Shape& s = p.shape;
    return __ldcg(p.sparse) * int64_t{64 * matmul::kHalf} > static_cast<int64_t>(s.groups) * s.features * s.depth();
}

// A pixel in a tile of features.
struct Looked {
    const float* y;  // of the first feature
    int number, features;
    int exponent;    // of the largest value of its window
    float scale;     // the power of two that this stands for; 0 where there is none

    __device__ __forceinline__ Looked(const Conv& p, const Place& place, int row) {
        const Shape& s = p.shape;
        const int first = place.features * kTile;
        number = place.pixels * kTile + row;
        features = min(kTile, s.features - first);
        y = p.y + place_in_y(s, min(number, s.pixels() - 1)) + (static_cast<int64_t>(place.group) * s.features + first) * s.plane;
        const int* largest = p.largest + (static_cast<int64_t>(place.pixels) * s.groups + place.group) * kGatherers + row;
        exponent = matmul::exponent_for(max(__ldcg(largest), __ldcg(largest + kTile)));
        scale = exponent < matmul::kNoValue && number < s.pixels() ? matmul::scale_of(-exponent) : 0.0f;
    }
};

// Exponents of the weight's rows in a tile.
__device__ __forceinline__ const int* exponents_of(const Conv& p, const Place& place) {
    return p.exponents + (static_cast<int64_t>(place.group) * p.of_group() + place.features) * kTile;
}

template <typename T, typename Join>
__device__ __forceinline__ T of_warp(T v, const Join& join) {
    for (int lanes = 16; lanes > 0; lanes /= 2) v = join(v, __shfl_xor_sync(0xffffffffu, v, lanes));
    return v;
}

// The powers of two that the largest values of the weight's rows in a tile stand for: their largest, and the sum of the first
// kLookedAt; by a warp.
struct Scales {
    float largest, of_first;

    __device__ __forceinline__ Scales(const Conv& p, const Place& place) {
        const int4 four = __ldcg(reinterpret_cast<const int4*>(exponents_of(p, place)) + threadIdx.x % 32);
        const float x = matmul::scale_of(-four.x), y = matmul::scale_of(-four.y), z = matmul::scale_of(-four.z),
                    w = matmul::scale_of(-four.w);
        largest = of_warp(fmaxf(fmaxf(x, y), fmaxf(z, w)), [](float a, float b) { return fmaxf(a, b); });
        of_first = __shfl_sync(0xffffffffu, x + y + z + w, 0);
    }
};
static_assert(kLookedAt == 4);

// Whether sums of a warp's pixels have few products that are not small beside the largest, by a sample of these.
__device__ __forceinline__ bool have_few(const Conv& p, const Place& place, const Looked& at) {
    constexpr unsigned kAll = 0xffffffffu;
    const Shape& s = p.shape;
    const bool sparse = is_weight_sparse(p);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const Pixel pixel = pixel_at(s, at.number);
    const float* window = p.x + pixel.first + place.group * s.group_values();
    const float* weight = p.plain + (static_cast<int64_t>(place.group) * s.features + place.features * kTile) * s.depth();
    const auto least_of = [](int exponent) { return matmul::scale_of(5 - exponent); };  // 2^-8 of the largest
    const int pixels = __popc(__ballot_sync(kAll, at.scale > 0.0f));
    const int64_t few = int64_t{p.all ? kFewOfAll : kFew} * pixels * 32;  // of so many pairs of a pixel and a feature
    int64_t found = 0;
    for (int i = 0; i < kSampled; ++i) {
        const int depth = static_cast<int>(linear::drawn_for(at.number / 32, i) % static_cast<unsigned>(s.depth()));
        const Tap tap = p.taps[depth];
        const bool is_inside = at.scale > 0.0f && (pixel.mask & tap.needed) == tap.needed;
        const float x = is_inside ? __ldg(window + tap.offset) : 0.0f;
        const int of_x = __popc(__ballot_sync(kAll, fabsf(x) >= least_of(at.exponent)));
        int of_weight = 32;
        if (sparse) {
            const int feature = (lane + 32 * i) % at.features;
            const float size = fabsf(__ldg(weight + static_cast<int64_t>(feature) * s.depth() + depth));
            of_weight = __popc(__ballot_sync(kAll, size >= least_of(__ldcg(exponents_of(p, place) + feature))));
        }
        found += of_x * of_weight;
        if (i % 8 == 7 && found * s.depth() >= 2 * few * (i + 1)) return false;
    }
    return found * s.depth() < few * kSampled;
}

// Of a pixel in a tile, by a warp of neighbours: whether it may have lost too much to small values, or the warp's have few products.
enum Loss { kNothing, kSmall, kAny };

__device__ __forceinline__ Loss loss_of(const Conv& p, const Place& place, const Looked& at) {
    constexpr auto kPlus = [](float a, float b) { return a + b; };
    const int64_t plane = p.shape.plane;
    const Scales of_weight(p, place);
    const float needed = kNeeded * sqrtf(2.0f * static_cast<float>(p.shape.depth())) * at.scale * of_weight.largest;
    const float share = 0.97f * rsqrtf(static_cast<float>(at.features));  // what the largest says of the size of all, not above
    float most = 0.0f, all = 0.0f;
    for (int j = 0; j < at.features; j += kLookedAt) {
        #pragma unroll
        for (int i = 0; i < kLookedAt; ++i) {
            const float size = j + i < at.features ? fabsf(__ldcg(at.y + (j + i) * plane)) : 0.0f;
            most = fmaxf(most, size), all += size;
        }
        if (j == 0) {
            const float wanted = kLargest * of_weight.of_first * of_warp(at.scale, kPlus);
            if (of_warp(at.scale > 0.0f ? all : 0.0f, kPlus) < wanted && have_few(p, place, at)) return kAny;
        }
        if (__all_sync(0xffffffffu, most * share >= needed)) return kNothing;
    }
    return fmaxf(most * share, all / static_cast<float>(at.features)) < needed ? kSmall : kNothing;
}

// Lists the tiles that may have lost too much; a block for each. Those of which this is certain by their complement.
__global__ void __launch_bounds__(kTile, 12) conv_look(const __grid_constant__ Conv p) {
    await_earlier();
    let_next_begin();
    const int number = static_cast<int>(blockIdx.x);
    const Place place = place_at<kTile>(p, number);
    const Loss loss = loss_of(p, place, Looked(p, place, static_cast<int>(threadIdx.x)));
    const bool certain = __syncthreads_or(loss == kAny);
    const bool lost = __syncthreads_or(loss != kNothing) && threadIdx.x == 0;
    if (lost) p.list[atomicAdd(p.lost, 1)] = certain ? ~number : number;
}

// Whether a half of a stage of a pixel's window is not dense; values of the padding do not count. `half`: of every stage.
__device__ __forceinline__ bool is_sparse(const Conv& p, const Place& place, int row, int half) {
    const Pixel pixel = pixel_at(p.shape, place.pixels * kTile + row);
    const float* window = p.x + pixel.first + place.group * p.shape.group_values();
    for (int i = 0; i < p.cut.stages; ++i) {
        const Tap* taps = p.taps + i * kDepth + half * kOfThread;
        float v[kOfThread];
        gather(v, window, pixel.mask, taps);
        int there = 0;
        #pragma unroll
        for (int j = 0; j < kOfThread; ++j) {
            const unsigned needed = taps[j].needed;
            there += (pixel.mask & needed) == needed ? 1 : 0;
        }
        const int exponent = matmul::exponent_for(matmul::largest_of<kOfThread>(v));
        if (8 * matmul::count_large<kOfThread>(v, exponent, false) < 5 * there) return true;
    }
    return false;
}

__device__ __forceinline__ void compute_tile(const Conv& p, const Place& place, Slices& slices) {
    const Plain plain = {p.shape, p.x, p.plain, p.bias, p.y, p.taps};
    const Tile tile = {place.pixels * kTile, place.features * kTile, place.group};
    const int depth = p.shape.depth();
    float all[8][8] = {};
    int now = 0;
    for (int begin = 0; begin < depth; begin += kAnewDepth) {
        float sum[8][8] = {};
        multiply_range(sum, slices, now, plain, tile, begin, min(begin + kAnewDepth, depth));
        #pragma unroll
        for (int i = 0; i < 64; ++i) all[i / 8][i % 8] += sum[i / 8][i % 8];
    }
    store_tile(all, plain, tile);
}

// Computes those of the listed tiles anew that have lost too much.
__global__ void __launch_bounds__(kPlainThreads, 1) conv_anew(const __grid_constant__ Conv p) {
    await_earlier();
    const int lost = __ldcg(p.lost);
    __shared__ Slices slices;
    for (int i = blockIdx.x; i < lost; i += gridDim.x) {
        const int number = __ldcg(p.list + i);
        const Place place = place_at<kTile>(p, max(number, ~number));
        const int row = static_cast<int>(threadIdx.x) % kTile, half = static_cast<int>(threadIdx.x) / kTile;
        bool anew = number < 0;
        if (!anew) {
            const Loss loss = loss_of(p, place, Looked(p, place, row));
            anew = loss != kNothing && (is_weight_sparse(p) || is_sparse(p, place, row, half));
        }
        if (__syncthreads_or(anew)) compute_tile(p, place, slices);
    }
}

inline cudaError_t compute_anew(const Conv& p, int64_t tiles, int64_t sms, cudaStream_t stream) {
    if (tiles > kMostBlocks) return cudaErrorInvalidValue;
    const cudaError_t error = launched(conv_look, static_cast<unsigned>(tiles), kTile, stream, p);
    if (error != cudaSuccess) return error;
    return launched(conv_anew, static_cast<unsigned>(std::min(sms, tiles)), kPlainThreads, stream, p);
}

}  // namespace kernelwright::conv
