// The per-channel affine map, and the loads and stores of a thread at one position, forward and backward.
//
// z = (x - mean) / sqrt(variance + eps) * weight + bias + residual; y = act(z). Backward dz = dy * act'(z), and dx is
// dz times the channel's scale.
#pragma once

#include "../../csrc/block.cuh"
#include "../../group_norm/csrc/activation.cuh"

namespace kernelwright::batch_norm {

struct Forward {
    const void* dy;        // null in the forward
    const void* x;         // not read in a backward without an activation
    const void* residual;  // same layout as x; or null
    const void* mean;      // [channels], as are variance, weight (or null) and bias (or null)
    const void* variance;
    const void* weight;
    const void* bias;
    void* y;               // result; in the backward dx, or null
    void* dz;              // gradient of z in the backward, or null
    int64_t n, channels, spatial;
    int64_t dtype, param_dtype;
    int64_t layout, act;  // values of Layout and Act of group_norm
    double eps;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kMapThreads = 128;  // threads per block of kernels without sums; in contiguous layout a thread handles one pack
constexpr int kRows = 2;          // rows per thread in channels-last layout

// Affine map of a channel: z = scale * x + shift.
struct Map {
    float scale, shift;
};

// Calls f(P{}) with the dtype P of the parameters: float32 or the elements' dtype T. One branch serves all parameters.
template <typename T, typename F>
__device__ __forceinline__ void with_parameters(const Forward& args, F f) {
    if (args.param_dtype == kFloat32) {
        f(float{});
    } else {
        f(T{});
    }
}

// Loads a parameter of V consecutive channels as pack `place`, or returns `absent` if `values` is null. The variance is loaded
// instead of a null parameter, since a load behind a branch would wait for the earlier ones.
template <typename P, int V>
__device__ __forceinline__ Pack<float, V> parameters(
    const Forward& args, const void* values, int64_t place, float absent) {
    constexpr int kEach = V < kVector<P> ? V : kVector<P>;
    const auto* packs = static_cast<const Pack<P, kEach>*>(values == nullptr ? args.variance : values);
    Pack<float, V> found;
    #pragma unroll
    for (int i = 0; i < V / kEach; ++i) {
        const auto pack = packs[place * (V / kEach) + i];
        #pragma unroll
        for (int k = 0; k < kEach; ++k) found.v[i * kEach + k] = values == nullptr ? absent : to_float(pack.v[k]);
    }
    return found;
}

template <typename P, int V>
__device__ __forceinline__ void map_of(Map (&maps)[V], const Forward& args, int64_t place) {
    const auto weight = parameters<P, V>(args, args.weight, place, 1.0f);
    const auto variance = parameters<P, V>(args, args.variance, place, 1.0f);
    const auto mean = parameters<P, V>(args, args.mean, place, 0.0f);
    const auto bias = parameters<P, V>(args, args.bias, place, 0.0f);
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        const float scale = weight.v[k] * rsqrtf(variance.v[k] + float(args.eps));
        maps[k] = {scale, fmaf(-mean.v[k], scale, bias.v[k])};
    }
}

template <typename P>
__device__ __forceinline__ Map map_of(const Forward& args, int64_t channel) {
    Map maps[1];
    map_of<P>(maps, args, channel);
    return maps[0];
}

// Returns an activation or its derivative for elements stored as T. 16-bit elements come twice as dense, so instructions count
// and float's last bits do not: SiLU uses the fast exponential and division for them.
template <typename T, bool kSlope>
__device__ __forceinline__ float bent_one(int64_t act, float z) {
    if (sizeof(T) < sizeof(float) && act == group_norm::kSilu) {
        constexpr float kLog2E = 1.44269504f;
        const float s = __fdividef(1.0f, 1.0f + exp2f(z * -kLog2E));
        return kSlope ? s * (1.0f + z * (1.0f - s)) : z * s;
    }
    return kSlope ? group_norm::derivative(act, z) : group_norm::activate(act, z);
}

// Returns the activation or its derivative of a pack, with the activation fixed at compile time.
template <int kAct, typename T, bool kSlope, int V>
__device__ __forceinline__ Pack<float, V> bent_by(Pack<float, V> z) {
    #pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = bent_one<T, kSlope>(kAct, z.v[k]);
    return z;
}

constexpr int kAny = -1;  // activation selected at run time, per pack

// Returns the activation or its derivative of a pack, selected at run time. Not inlined: six inlined activations would be most
// of a kernel's code.
template <typename T, bool kSlope, int V>
__device__ __noinline__ Pack<float, V> bent_by_any(int64_t act, Pack<float, V> z) {
    switch (act) {
        case group_norm::kNone: return bent_by<group_norm::kNone, T, kSlope>(z);
        case group_norm::kRelu: return bent_by<group_norm::kRelu, T, kSlope>(z);
        case group_norm::kSilu: return bent_by<group_norm::kSilu, T, kSlope>(z);
        case group_norm::kGelu: return bent_by<group_norm::kGelu, T, kSlope>(z);
        case group_norm::kTanh: return bent_by<group_norm::kTanh, T, kSlope>(z);
        default: return bent_by<group_norm::kHardswish, T, kSlope>(z);
    }
}

template <typename T, int V>
__device__ __forceinline__ void put(void* to, int64_t place, const Pack<float, V>& values) {
    Pack<T, V> pack;
    #pragma unroll
    for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(values.v[k]);
    static_cast<Pack<T, V>*>(to)[place] = pack;
}

// x and the residual at one position.
template <typename T, int V>
struct Summands {
    Pack<T, V> x, residual;

    __device__ __forceinline__ void load(const Forward& args, int64_t place) {
        x = static_cast<const Pack<T, V>*>(args.x)[place];
        if (args.residual != nullptr) residual = static_cast<const Pack<T, V>*>(args.residual)[place];
    }

    __device__ __forceinline__ Pack<float, V> sum(const Forward& args, const Map (&maps)[V]) const {
        Pack<float, V> z;
        #pragma unroll
        for (int k = 0; k < V; ++k) z.v[k] = fmaf(to_float(x.v[k]), maps[k].scale, maps[k].shift);
        if (args.residual == nullptr) return z;
        #pragma unroll
        for (int k = 0; k < V; ++k) z.v[k] += to_float(residual.v[k]);
        return z;
    }
};

// Forward at one position: loads x and the residual, stores y.
template <int kAct, typename T, int V>
struct Value {
    using Stored = T;
    static constexpr int kWide = V;
    Summands<T, V> of;

    __device__ __forceinline__ void load(const Forward& args, int64_t place) { of.load(args, place); }

    __device__ __forceinline__ void store(const Forward& args, int64_t place, const Map (&maps)[V]) const {
        const Pack<float, V> z = of.sum(args, maps);
        if constexpr (kAct == kAny) {
            put<T>(args.y, place, bent_by_any<T, false>(args.act, z));
        } else {
            put<T>(args.y, place, bent_by<kAct, T, false>(z));
        }
    }
};

// Backward at one position. With kSums x is loaded even without an activation.
template <typename T, int V, bool kSums = false>
struct Slope {
    using Stored = T;
    static constexpr int kWide = V;
    Summands<T, V> of;
    Pack<T, V> dy;

    __device__ __forceinline__ void load(const Forward& args, int64_t place) {
        if (args.act != group_norm::kNone) {
            of.load(args, place);
        } else if (kSums) {
            of.x = static_cast<const Pack<T, V>*>(args.x)[place];
        }
        dy = static_cast<const Pack<T, V>*>(args.dy)[place];
    }

    // Stores dz and dx where wanted, and returns dz.
    __device__ __forceinline__ Pack<float, V> store(const Forward& args, int64_t place, const Map (&maps)[V]) const {
        Pack<float, V> dz;
        #pragma unroll
        for (int k = 0; k < V; ++k) dz.v[k] = to_float(dy.v[k]);
        if (args.act != group_norm::kNone) {
            const Pack<float, V> slope = bent_by_any<T, true>(args.act, of.sum(args, maps));
            #pragma unroll
            for (int k = 0; k < V; ++k) dz.v[k] *= slope.v[k];
        }
        if (args.dz != nullptr) put<T>(args.dz, place, dz);
        if (args.y != nullptr) {
            Pack<float, V> dx;
            #pragma unroll
            for (int k = 0; k < V; ++k) dx.v[k] = dz.v[k] * maps[k].scale;
            put<T>(args.y, place, dx);
        }
        return dz;
    }
};

// Returns true if the tensors are aligned for packs. parameters_start returns it for parameters, which channels-last loads as
// packs.
template <typename Arguments>
bool tensors_start(const Arguments& args) {
    return aligned(args.dy) && aligned(args.x) && aligned(args.residual) && aligned(args.dz);
}

template <typename Arguments>
bool parameters_start(const Arguments& args) {
    return aligned(args.mean) && aligned(args.variance) && aligned(args.weight) && aligned(args.bias);
}

inline int64_t blocks_of(int64_t count, int64_t each) { return (count + each - 1) / each; }

}  // namespace kernelwright::batch_norm
