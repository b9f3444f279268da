"""Every kind of finding that the emulator gives. Generated: do not edit.

Written by `python -m agent.contracts` from runtime/finding_kinds.h.
"""

import enum


class FindingKind(enum.StrEnum):
    ARRAY_INDEX_OUT_OF_BOUNDS = "array-index-out-of-bounds"
    ASYNC_COPY_NOT_WAITED = "async-copy-not-waited"
    BARRIER_AFTER_EXIT = "barrier-after-exit"
    CLUSTER_BARRIER = "cluster-barrier"
    CLUSTER_PEER_GONE = "cluster-peer-gone"
    DEADLOCK = "deadlock"
    DEFAULT_STREAM = "default-stream"
    DEVICE_ASSERT = "device-assert"
    DEVICE_STACK_OVERFLOW = "device-stack-overflow"
    DIVERGENT_BARRIER = "divergent-barrier"
    DIVIDE_BY_ZERO = "divide-by-zero"
    EMULATOR_TAMPERED = "emulator-tampered"
    FREED_POINTER = "freed-pointer"
    GLOBAL_OUT_OF_BOUNDS_READ = "global-out-of-bounds-read"
    GLOBAL_OUT_OF_BOUNDS_WRITE = "global-out-of-bounds-write"
    GLOBAL_RACE_BETWEEN_BLOCKS = "global-race-between-blocks"
    HOST_POINTER = "host-pointer"
    ILLEGAL_ADDRESS = "illegal-address"
    ILLEGAL_LAUNCH = "illegal-launch"
    INDEX_OVERFLOW = "index-overflow"
    MBARRIER_MISUSE = "mbarrier-misuse"
    MISALIGNED_ACCESS = "misaligned-access"
    MISSING_PROXY_FENCE = "missing-proxy-fence"
    NAMED_BARRIER = "named-barrier"
    NULL_POINTER = "null-pointer"
    SHARED_MEMORY_LIMIT = "shared-memory-limit"
    SHARED_OUT_OF_BOUNDS_READ = "shared-out-of-bounds-read"
    SHARED_OUT_OF_BOUNDS_WRITE = "shared-out-of-bounds-write"
    SHARED_RACE = "shared-race"
    SHARED_UNINITIALISED_READ = "shared-uninitialised-read"
    UNCHECKED_LAUNCH_ERROR = "unchecked-launch-error"
    UNWRITTEN_OUTPUT = "unwritten-output"
    WARP_MASK_EXCLUDES_CALLER = "warp-mask-excludes-caller"
    WARP_OP_ABSENT_LANES = "warp-op-absent-lanes"
    WARP_OP_DIVERGENT = "warp-op-divergent"
