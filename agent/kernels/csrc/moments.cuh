// Mean and squared deviations of parts of a row, merged without cancellation under a large common offset.
#pragma once

#include "block.cuh"

namespace kernelwright {

struct Moments {
    float count;
    float mean;
    float m2;  // sum of squared deviations from the mean
};

// Merges the moments of two disjoint parts of a row. Chan, Golub, LeVeque: "Updating formulae and a pairwise algorithm
// for computing sample variances" (1979).
__device__ __forceinline__ Moments merge(Moments a, Moments b) {
    const float count = a.count + b.count;
    if (count == 0.0f) return a;
    const float share = b.count / count;
    const float delta = b.mean - a.mean;
    return {count, a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.count * share};
}

}  // namespace kernelwright
