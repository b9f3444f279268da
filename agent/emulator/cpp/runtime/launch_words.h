// Messages of refused launches. agent/diagnosis/runtime/illegal_launches.py parses the sizes out of them, with
// patterns that agent/contracts generates from these texts.
#pragma once

namespace kw {

constexpr char kEmptyLaunch[] = "grid (%u, %u, %u) and block (%u, %u, %u): no size may be 0";
constexpr char kLargeBlock[] =
    "block (%u, %u, %u) has %lu threads; the limit is %d threads (x and y up to %d, z up to %d)";
constexpr char kLargeGrid[] = "grid (%u, %u, %u); the limits are x %d, y %d and z %d";
constexpr char kSharedBeyondDevice[] = "%zu bytes of dynamic shared memory; a block cannot have more than %zu";
constexpr char kSharedBeyondAsked[] =
    "%zu bytes of dynamic shared memory; the limit is %zu, as set with cudaFuncSetAttribute";
constexpr char kSharedBeyondDefault[] =
    "%zu bytes of dynamic shared memory; the limit is %zu unless cudaFuncSetAttribute(kernel, "
    "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) raises it";
constexpr char kLargeCluster[] =
    "A cluster of %lu blocks: more than %u need cudaFuncSetAttribute with "
    "cudaFuncAttributeNonPortableClusterSizeAllowed.";
constexpr char kBadCluster[] =
    "clusters of (%u,%u,%u) blocks in a grid of (%u,%u,%u); they have to divide it, with at most %u blocks each";
constexpr char kTooManyAtOnce[] = "%lu blocks of %lu threads at once; a cooperative launch may have %lu";

}  // namespace kw
