// Every kind of finding that code on the emulated device can cause. agent/contracts generates Python's enum of these
// kinds, which all Python code uses. A new kind is declared here first.
#pragma once

namespace kw {

struct FindingKind {
    const char* name;
    bool in_sample;  // true if the finding does not depend on memory contents, so that sampled launches report it too
};
using Kind = const FindingKind*;

namespace finding {

inline constexpr FindingKind kArrayIndexOutOfBounds{"array-index-out-of-bounds", true};
inline constexpr FindingKind kAsyncCopyNotWaited{"async-copy-not-waited", false};
inline constexpr FindingKind kBarrierAfterExit{"barrier-after-exit", false};
inline constexpr FindingKind kClusterBarrier{"cluster-barrier", false};
inline constexpr FindingKind kClusterPeerGone{"cluster-peer-gone", false};
inline constexpr FindingKind kDeadlock{"deadlock", false};
inline constexpr FindingKind kDefaultStream{"default-stream", false};
inline constexpr FindingKind kDeviceAssert{"device-assert", false};
inline constexpr FindingKind kDeviceStackOverflow{"device-stack-overflow", false};
inline constexpr FindingKind kDevicePointer{"device-pointer", false};
inline constexpr FindingKind kDivergentBarrier{"divergent-barrier", false};
inline constexpr FindingKind kDivideByZero{"divide-by-zero", false};
inline constexpr FindingKind kEmulatorTampered{"emulator-tampered", true};
inline constexpr FindingKind kFreedPointer{"freed-pointer", false};
inline constexpr FindingKind kGlobalOutOfBoundsRead{"global-out-of-bounds-read", true};
inline constexpr FindingKind kGlobalOutOfBoundsWrite{"global-out-of-bounds-write", true};
inline constexpr FindingKind kGlobalRaceBetweenBlocks{"global-race-between-blocks", false};
inline constexpr FindingKind kGlobalRaceWithinBlock{"global-race-within-block", false};
inline constexpr FindingKind kHostPointer{"host-pointer", false};
inline constexpr FindingKind kIllegalAddress{"illegal-address", false};
inline constexpr FindingKind kIllegalLaunch{"illegal-launch", true};
inline constexpr FindingKind kIndexOverflow{"index-overflow", true};
inline constexpr FindingKind kMatrixLayout{"matrix-layout", false};
inline constexpr FindingKind kMbarrierMisuse{"mbarrier-misuse", false};
inline constexpr FindingKind kMisalignedAccess{"misaligned-access", true};
inline constexpr FindingKind kMissingProxyFence{"missing-proxy-fence", false};
inline constexpr FindingKind kNamedBarrier{"named-barrier", false};
inline constexpr FindingKind kNullPointer{"null-pointer", false};
inline constexpr FindingKind kProductNotWaited{"product-not-waited", false};
inline constexpr FindingKind kProductWithoutFence{"product-without-fence", false};
inline constexpr FindingKind kReadOnlyLoad{"read-only-load", false};
inline constexpr FindingKind kSharedMemoryLimit{"shared-memory-limit", true};
inline constexpr FindingKind kSharedOutOfBoundsRead{"shared-out-of-bounds-read", true};
inline constexpr FindingKind kSharedOutOfBoundsWrite{"shared-out-of-bounds-write", true};
inline constexpr FindingKind kSharedRace{"shared-race", false};
inline constexpr FindingKind kSharedUninitialisedRead{"shared-uninitialised-read", false};
inline constexpr FindingKind kTensorMap{"tensor-map", false};
inline constexpr FindingKind kUncheckedLaunchError{"unchecked-launch-error", false};
inline constexpr FindingKind kUnorderedStream{"unordered-stream", false};
inline constexpr FindingKind kUnwrittenOutput{"unwritten-output", false};  // reported by torch_shim
inline constexpr FindingKind kWarpMaskExcludesCaller{"warp-mask-excludes-caller", false};
inline constexpr FindingKind kWarpOpAbsentLanes{"warp-op-absent-lanes", false};
inline constexpr FindingKind kWarpOpDivergent{"warp-op-divergent", false};

}  // namespace finding

}  // namespace kw
