// turns_sm90.cuh for the emulator without PTX, whose products are done when they are issued: in any turn.
namespace kernelwright::matmul {

__device__ inline void await_turn(int) {}
__device__ inline void give_turn_to(int) {}

}  // namespace kernelwright::matmul
