"""An attempt with all that is noted of one that is verified and slow."""

from agent.diagnosis.performance import performance_advice
from agent.diagnosis.performance.counters import Counters
from agent.diagnosis.performance.stalls import Waiting
from agent.records import Attempt, KernelTime, Profile, Trace

KERNEL = "group_norm_kernel"
COUNTED = Counters(
    KERNEL,
    {
        "gpu__time_duration.sum": 3.98e6, "dram__throughput.avg.pct_of_peak_sustained_elapsed": 41.0,
        "dram__bytes_read.sum": 6.0e9, "dram__bytes_write.sum": 2.0e9,
        "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active": 12.0,
        "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active": 7.0,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 48.0,
        "launch__occupancy_limit_registers": 8.0,
        "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": 11.5,
    },
    waiting=(
        Waiting(31, 0.9, "global memory", "total += x[i];"),
        Waiting(36, 0.07, "a barrier", "__syncthreads();"),
    ),
)  # fmt: skip
TRACE = Trace(
    operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=7_516_192_768
)


def with_evidence(attempt: Attempt) -> Attempt:
    """The same attempt, looked at as the best one is."""
    found = attempt.evaluation
    assert found.measurement
    assert found.build
    own = KernelTime(name=KERNEL, launches=1, ms=3.98, own=True)
    rival = KernelTime(name="triton_red_fused_native_group_norm_0", launches=1, ms=5.3, own=False)
    profile = Profile(kernels=(own,), streams=1)
    note = performance_advice.recommendation(
        found.measurement, TRACE, found.build.kernels, profile, [COUNTED]
    )
    assert note is not None
    measured = found.measurement.model_copy(update={"compile_kernels": (rival,)})
    more = {"measurement": measured, "profile": profile, "findings": (note,)}
    return attempt.model_copy(update={"evaluation": found.model_copy(update=more)})
