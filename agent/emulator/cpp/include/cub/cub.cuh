// CUB's BlockReduce, BlockScan (sums only) and WarpReduce, for one-dimensional blocks in which every thread takes part.
// Device-wide algorithms are missing.
#pragma once
#include "kw/device.h"

namespace cub {

struct Sum {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return a + b;
  }
};
struct Max {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return a < b ? b : a;
  }
};
struct Min {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return b < a ? b : a;
  }
};

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <class T, int Threads = 32>
class WarpReduce {
 public:
  struct TempStorage {};
  explicit WarpReduce(TempStorage&) {}
  template <class Op>
  T Reduce(T value, Op op) {
    for (int distance = Threads / 2; distance > 0; distance /= 2) {
      const T other = __shfl_down_sync(0xffffffffu, value, distance, Threads);
      if (static_cast<int>(threadIdx.x % Threads) + distance < Threads) value = op(value, other);
    }
    return value;
  }
  T Sum(T value) { return Reduce(value, cub::Sum()); }
};

// Reduction over a block. The result is defined only in thread 0, as in CUB.
template <class T, int Threads, BlockReduceAlgorithm Algorithm = BLOCK_REDUCE_WARP_REDUCTIONS>
class BlockReduce {
 public:
  struct TempStorage {
    T values[Threads];
  };
  explicit BlockReduce(TempStorage& storage) : storage_(storage) {}
  template <class Op>
  T Reduce(T value, Op op, int valid = Threads) {
    storage_.values[threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.x == 0)
      for (int i = 1; i < valid; ++i) value = op(value, storage_.values[i]);
    return value;
  }
  T Sum(T value) { return Reduce(value, cub::Sum()); }
  T Sum(T value, int valid) { return Reduce(value, cub::Sum(), valid); }

 private:
  TempStorage& storage_;
};

template <class T, int Threads, BlockScanAlgorithm Algorithm = BLOCK_SCAN_RAKING>
class BlockScan {
 public:
  struct TempStorage {
    T values[Threads];
  };
  explicit BlockScan(TempStorage& storage) : storage_(storage) {}
  void InclusiveSum(T input, T& output) {
    storage_.values[threadIdx.x] = input;
    __syncthreads();
    T total = storage_.values[0];
    for (unsigned i = 1; i <= threadIdx.x; ++i) total = total + storage_.values[i];
    output = total;
  }
  void ExclusiveSum(T input, T& output) {
    storage_.values[threadIdx.x] = input;
    __syncthreads();
    T total = T();
    for (unsigned i = 0; i < threadIdx.x; ++i) total = total + storage_.values[i];
    output = total;
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
