// Limits of the emulated device, an sm_90 with the sizes of an H100 (CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability"). agent/contracts generates Python constants from this header.
#pragma once

#include <cstddef>

namespace kw {

constexpr int kComputeMajor = 9;
constexpr int kComputeMinor = 0;
constexpr int kMultiprocessors = 132;
constexpr int kWarpSize = 32;
constexpr int kMaxThreads = 1024;  // per block
constexpr int kMaxBlockX = 1024;
constexpr int kMaxBlockY = 1024;
constexpr int kMaxBlockZ = 64;
constexpr int kMaxGridX = 2147483647;
constexpr int kMaxGridY = 65535;
constexpr int kMaxGridZ = 65535;
constexpr int kThreadsPerMultiprocessor = 2048;
constexpr int kBlocksPerMultiprocessor = 32;
constexpr int kRegistersPerMultiprocessor = 65536;
constexpr size_t kDefaultSharedLimit = 48 * 1024;  // dynamic shared memory per block by default
constexpr size_t kOptInSharedLimit = 227 * 1024;   // maximum that cudaFuncSetAttribute can set
constexpr size_t kSharedPerMultiprocessor = 228 * 1024;
constexpr size_t kReservedSharedPerBlock = 1024;
constexpr size_t kConstantMemory = 64 * 1024;
constexpr size_t kGlobalMemory = size_t{80} << 30;
constexpr int kL2CacheBytes = 50 << 20;

}  // namespace kw
