// One map for each channel: what is loaded at one place, and what follows from it, forward and backward.
//
// z = (x - mean) / sqrt(variance + eps) * weight + bias + residual; y = act(z). Backward dz = dy * act'(z), and dx is
// dz times the channel's scale.
#pragma once

#include "../../csrc/block.cuh"
#include "../../group_norm/csrc/activation.cuh"

namespace kernelwright::batch_norm {

struct Forward {
    const void* dy;        // null: forward
    const void* x;         // backward without an activation: not read
    const void* residual;  // likewise; or null
    const void* mean;      // [channels], as the variance, the weight (or null) and the bias (or null)
    const void* variance;
    const void* weight;
    const void* bias;
    void* y;               // backward: dx, or null
    void* dz;              // backward: or null
    int64_t n, channels, spatial;
    int64_t dtype, param_dtype;
    int64_t layout, act;  // Layout and Act of group_norm
    double eps;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kThreads = 256;
constexpr int kBlocks = 2;  // on an SM, at least
constexpr int kPacks = 2;   // of a tensor, under way in one thread
constexpr int kRows = 16;   // with channels side by side, of one thread

// What x is multiplied by, and what is added.
struct Map {
    float scale, shift;
};

template <typename T>
__device__ __forceinline__ Map map_of(const Forward& args, int64_t channel) {
    const auto value = [&](const void* values, float absent) {
        return group_norm::parameter<T>(values, args.param_dtype, channel, absent);
    };
    const float scale = value(args.weight, 1.0f) * rsqrtf(value(args.variance, 1.0f) + float(args.eps));
    return {scale, fmaf(-value(args.mean, 0.0f), scale, value(args.bias, 0.0f))};
}

// f of each lane.
template <int V, typename F>
__device__ __forceinline__ group_norm::Pack<float, V> each_lane(group_norm::Pack<float, V> z, F f) {
    #pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = f(z.v[k]);
    return z;
}

// An activation or its derivative, of elements stored as T. Of 16-bit ones there are twice as many a byte, so that
// instructions count, and the last bits of float do not: SiLU's exponential and division are the short ones then.
template <typename T, bool kSlope>
__device__ __forceinline__ float bent_one(int64_t act, float z) {
    if (sizeof(T) < sizeof(float) && act == group_norm::kSilu) {
        constexpr float kLog2E = 1.44269504f;
        const float s = __fdividef(1.0f, 1.0f + exp2f(z * -kLog2E));
        return kSlope ? s * (1.0f + z * (1.0f - s)) : z * s;
    }
    return kSlope ? group_norm::derivative(act, z) : group_norm::activate(act, z);
}

// Of a pack. Which one it is is asked once: asked at each lane, it takes five comparisons and as many branches for an
// element. A function, because inlined where it is used the six of them would be most of a kernel's code.
template <typename T, bool kSlope, int V>
__device__ __noinline__ group_norm::Pack<float, V> bent(int64_t act, group_norm::Pack<float, V> z) {
    switch (act) {
        case group_norm::kRelu:
            return each_lane(z, [](float value) { return bent_one<T, kSlope>(group_norm::kRelu, value); });
        case group_norm::kSilu:
            return each_lane(z, [](float value) { return bent_one<T, kSlope>(group_norm::kSilu, value); });
        case group_norm::kGelu:
            return each_lane(z, [](float value) { return bent_one<T, kSlope>(group_norm::kGelu, value); });
        case group_norm::kTanh:
            return each_lane(z, [](float value) { return bent_one<T, kSlope>(group_norm::kTanh, value); });
        default: return each_lane(z, [](float value) { return bent_one<T, kSlope>(group_norm::kHardswish, value); });
    }
}

// Of each tensor that is there, what stands at one place; x also where only a sum asks for it.
template <typename T, int V, bool kSums = false>
struct Taken {
    Pack<T, V> x, residual, dy;

    __device__ __forceinline__ void load(const Forward& args, int64_t place) {
        const bool bent = args.dy == nullptr || args.act != group_norm::kNone;
        if (bent || kSums) x = static_cast<const Pack<T, V>*>(args.x)[place];
        if (bent && args.residual != nullptr) residual = static_cast<const Pack<T, V>*>(args.residual)[place];
        if (args.dy != nullptr) dy = static_cast<const Pack<T, V>*>(args.dy)[place];
    }

    // Gives dz where it goes backward.
    __device__ __forceinline__ group_norm::Pack<float, V> store(
        const Forward& args, int64_t place, const Map (&maps)[V]) {
        group_norm::Pack<float, V> z = {};
        if (args.dy == nullptr || args.act != group_norm::kNone) {
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                z.v[k] = fmaf(to_float(x.v[k]), maps[k].scale, maps[k].shift);
                if (args.residual != nullptr) z.v[k] += to_float(residual.v[k]);
            }
        }
        if (args.dy == nullptr) {
            if (args.act != group_norm::kNone) z = bent<T, false>(args.act, z);
            put(args.y, place, z);
            return z;
        }
        if (args.act != group_norm::kNone) z = bent<T, true>(args.act, z);
        #pragma unroll
        for (int k = 0; k < V; ++k) z.v[k] = to_float(dy.v[k]) * (args.act == group_norm::kNone ? 1.0f : z.v[k]);
        if (args.dz != nullptr) put(args.dz, place, z);
        if (args.y != nullptr) {
            group_norm::Pack<float, V> dx;
            #pragma unroll
            for (int k = 0; k < V; ++k) dx.v[k] = z.v[k] * maps[k].scale;
            put(args.y, place, dx);
        }
        return z;
    }

    __device__ __forceinline__ static void put(void* to, int64_t place, const group_norm::Pack<float, V>& values) {
        Pack<T, V> pack;
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(values.v[k]);
        static_cast<Pack<T, V>*>(to)[place] = pack;
    }
};

inline int64_t blocks_of(int64_t count, int64_t each) { return (count + each - 1) / each; }

}  // namespace kernelwright::batch_norm
