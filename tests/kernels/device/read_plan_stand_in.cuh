// read_plan_sm90.cuh for the emulator without PTX, which has no products of registers: nothing is read once.
#include "../../../agent/kernels/matmul_fp32x3/csrc/sizes.cuh"

namespace kernelwright::matmul {

struct ReadPlan {
    bool fits;
    int64_t bytes;
};

inline ReadPlan read_plan(const Forward&, int64_t) { return {}; }
inline bool is_worth(const Forward&, const ReadPlan&) { return false; }
inline cudaError_t read_once(const Forward&, const ReadPlan&) { return cudaErrorNotSupported; }

}  // namespace kernelwright::matmul
