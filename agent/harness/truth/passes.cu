// Compares large float32 outputs with the ground truth, in one pass over memory each (agent/harness/truth/passes.py).
//
// Every block writes its totals as one row of doubles: sums first, then maxima. Non-finite values make a sum
// non-finite.

constexpr int THREADS = 256, WARPS = THREADS / 32, VECTOR = 4;
constexpr unsigned ALL = 0xffffffffu;

template <int SUMS, int LARGEST>
struct Totals {
    double values[SUMS + LARGEST] = {};

    __device__ void add(int place, double value) { values[place] += value; }
    __device__ void raise(int place, double value) {
        values[SUMS + place] = fmax(values[SUMS + place], value);
    }
    static __device__ double joined(int place, double one, double other) {
        return place < SUMS ? one + other : fmax(one, other);
    }
    __device__ void leave(double* rows) {
        __shared__ double shared[WARPS][SUMS + LARGEST];
        for (int place = 0; place < SUMS + LARGEST; ++place) {
            double value = values[place];
            for (int step = 16; step > 0; step /= 2) {
                value = joined(place, value, __shfl_down_sync(ALL, value, step));
            }
            if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32][place] = value;
        }
        __syncthreads();
        if (threadIdx.x >= SUMS + LARGEST) return;
        double value = shared[0][threadIdx.x];
        for (int warp = 1; warp < WARPS; ++warp) value = joined(threadIdx.x, value, shared[warp][threadIdx.x]);
        rows[blockIdx.x * (SUMS + LARGEST) + threadIdx.x] = value;
    }
};

// Calls each(vector, lane) for this thread's elements; loads(i) reads the i-th vector of four.
template <class Loads, class Each>
__device__ void over(long long count, Loads loads, Each each) {
    const long long step = 1ll * gridDim.x * THREADS;
    const long long first = 1ll * blockIdx.x * THREADS + threadIdx.x;
    for (long long at = first; at < count / VECTOR; at += step) {
        const auto four = loads(at);
        for (int lane = 0; lane < VECTOR; ++lane) each(four, lane);
    }
}

struct Four {
    float values[VECTOR];
};

struct FourDoubles {
    double values[VECTOR];
};

__device__ Four of(const float* from, long long at) {
    const float4 v = reinterpret_cast<const float4*>(from)[at];
    return {{v.x, v.y, v.z, v.w}};
}

__device__ FourDoubles of(const double* from, long long at) {
    const double2 v = reinterpret_cast<const double2*>(from)[2 * at];
    const double2 w = reinterpret_cast<const double2*>(from)[2 * at + 1];
    return {{v.x, v.y, w.x, w.y}};
}

// A row holds the truth's sum of squares, each run's sum of squared errors, and each run's largest error. The
// third run, `three`, may be null.
extern "C" __global__ void __launch_bounds__(THREADS) errors_of_runs(
    const double* truth, const float* one, const float* two, const float* three, long long count, double* rows
) {
    Totals<4, 3> totals;
    const auto take = [&](double wanted, int run, float value) {
        const double error = wanted - value;
        totals.add(1 + run, error * error);
        totals.raise(run, fabs(error));
    };
    struct Loaded {
        FourDoubles truth;
        Four runs[3];
    };
    const auto loads = [&](long long at) {
        return Loaded{of(truth, at), {of(one, at), of(two, at), three ? of(three, at) : Four{}}};
    };
    over(count, loads, [&](const Loaded& here, int lane) {
        const double wanted = here.truth.values[lane];
        totals.add(0, wanted * wanted);
        take(wanted, 0, here.runs[0].values[lane]);
        take(wanted, 1, here.runs[1].values[lane]);
        if (three) take(wanted, 2, here.runs[2].values[lane]);
    });
    totals.leave(rows);
}

// A row holds the sum of squared errors, then four maxima: the error, the magnitude of the truth, the error
// relative to floor + share * |truth|, and the error relative to max(|truth|, scale).
extern "C" __global__ void __launch_bounds__(THREADS) errors_of_output(
    const double* truth, const float* output, long long count, float floor, float share, float scale,
    double* rows
) {
    Totals<1, 4> totals;
    float most = 0, largest = 0, of_limit = 0, relative = 0;
    struct Loaded {
        FourDoubles truth;
        Four output;
    };
    over(count, [&](long long at) { return Loaded{of(truth, at), of(output, at)}; },
         [&](const Loaded& here, int lane) {
        const double error = here.output.values[lane] - here.truth.values[lane];
        totals.add(0, error * error);
        const float off = fabsf(static_cast<float>(error));
        const float size = fabsf(static_cast<float>(here.truth.values[lane]));
        most = fmaxf(most, off);
        largest = fmaxf(largest, size);
        of_limit = fmaxf(of_limit, __fdividef(off, floor + share * size));
        relative = fmaxf(relative, __fdividef(off, fmaxf(size, scale)));
    });
    totals.raise(0, most);
    totals.raise(1, largest);
    totals.raise(2, of_limit);
    totals.raise(3, relative);
    totals.leave(rows);
}

// A row holds the sum of squares of `wanted`, the sum of absolute differences (finite only if every difference
// is), and the largest absolute difference.
extern "C" __global__ void __launch_bounds__(THREADS) differences(
    const float* found, const float* wanted, long long count, double* rows
) {
    Totals<2, 1> totals;
    struct Loaded {
        Four found, wanted;
    };
    over(count, [&](long long at) { return Loaded{of(found, at), of(wanted, at)}; },
         [&](const Loaded& here, int lane) {
        const float apart = here.found.values[lane] - here.wanted.values[lane];
        totals.add(0, 1.0 * here.wanted.values[lane] * here.wanted.values[lane]);
        totals.add(1, fabsf(apart));
        totals.raise(0, fabsf(apart));
    });
    totals.leave(rows);
}
