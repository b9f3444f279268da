"""A trial on a GPU: timing, what runs there during a call, calls under a tool, and the GPU's health."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from agent import gpu_build
from agent.build.build_request import BuildRequest
from agent.diagnosis.performance import performance_advice
from agent.harness import disk_cache
from agent.harness.backends import gpu_health
from agent.harness.integrity import kernel_attribution
from agent.harness.messages import oracle_commands
from agent.harness.messages.commands import to_oracle, to_worker
from agent.harness.task import faults
from agent.harness.task.job import END_LIMIT_S, HEALTH_LIMIT_S, ORACLE_LIMIT_S, Announce, secret_seed
from agent.harness.task.protocol import Draw
from agent.harness.timing import benchmark, stats
from agent.harness.timing.processes import TimedProcesses
from agent.harness.trial.ahead import Ahead, Steps, unsectioned
from agent.harness.trial.trial import Trial
from agent.harness.worker import worker_commands
from agent.records import KernelTime, Measurement, Profile, Status, digest
from agent.sandbox import ChildFault

MOST_FLOPS_AHEAD = 10**12
"""Of a reference whose draws are made ahead for nothing: of more, one costs more than it saves the first."""


class Hung(Exception):
    """A call under a tool did not come to an end; `log` is what was printed until then."""

    def __init__(self, log: str) -> None:
        super().__init__("it gave no answer in time")
        self.log = log


class _NotTold(Exception):
    """CUDA's profiler told nothing."""


class GpuTrial(Trial):
    """What can be done with a candidate on a GPU beside verifying it."""

    def load(self, *, ahead: bool = True) -> None:
        """Also readies what needs no candidate, meanwhile; not for a second look, which may not go on."""
        if self._job.measure:
            self.oracle.ask(to_oracle(oracle_commands.ExpectBaselines()))
        ahead = ahead and not self._job.confirms
        work = Ahead(self._backend.gpu_lock, *self._steps_ahead()) if ahead else None
        try:
            super().load(ahead=ahead)
        finally:
            if work is not None:
                work.end()

    def verify(self, announce: Announce) -> None:
        self._use_kernels()
        super().verify(announce)

    def _use_kernels(self) -> None:
        kernels = self._backend.comparison
        if kernels is not None:
            self.oracle.ask(to_oracle(oracle_commands.ComparisonKernels(str(kernels))))

    def _steps_ahead(self) -> list[Steps]:
        """Of the oracle, and of the worker that does nothing."""

        def warm_up(compiled: bool) -> None:
            command = oracle_commands.WarmUp(secret_seed(), compiled)
            self.oracle.attempt(to_oracle(command), ORACLE_LIMIT_S)

        steps: list[Callable[[], object]] = [self.environment, self._use_kernels]
        if self._trace.flops <= MOST_FLOPS_AHEAD:
            steps.append(lambda: warm_up(False))
        if self._noop:
            steps.append(unsectioned(lambda: warm_up(True)))
        return [steps, [self._noop.begin]] if self._noop else [steps]

    def using(self) -> AbstractContextManager[None]:
        """Return a section in which the GPU is shared with other trials."""
        return self._backend.gpu_lock.shared()

    def alone_on_gpu(self) -> AbstractContextManager[None]:
        """Return a turn in which no other trial uses the GPU."""
        return self._backend.gpu_lock.exclusive()

    @property
    def requests(self) -> tuple[BuildRequest, ...]:
        """All that was asked to be built so far."""
        return tuple(self._backend.requests)

    def instantiate(self) -> None:
        """Make an instance of the candidate. Raises Refused."""
        self._instance(secret_seed(), "set0")

    def call_under_a_tool(self, calls: int, limit_s: float) -> str:
        """Make so many calls whose outputs nobody looks at. Raises Hung after `limit_s` seconds.

        Returns what the worker and the tool that runs it have printed.
        """
        until, drawn = time.monotonic() + limit_s, dict[str, Any]()
        try:
            for number in range(1, calls + 1):
                drawn = self._drawn_for(Draw(), f"draw{number}", drawn)
                self.limits.most_s = max(until - time.monotonic(), 0.1)
                self._call_on(drawn, Draw(), f"draw{number}")
        except faults.Refused as refused:
            # At other sizes than its own a candidate may fail; what it did until then counts all the same.
            if refused.status is Status.TIMEOUT:
                raise Hung(self.candidate.child.finish(END_LIMIT_S)) from None
        return self.candidate.child.finish(END_LIMIT_S)

    def prepare_timing(self) -> list[str]:
        """Ready what the candidate is timed against and return the names of the baselines."""
        assert self._noop is not None
        self.oracle.ask(to_oracle(oracle_commands.Rest()))
        self._noop.prepare(self._given)
        self._processes = TimedProcesses(self.candidate, self._noop, self.oracle)
        return benchmark.prepared(self._processes, more=self._job.baselines)

    def time(self, names: list[str], announce: Announce) -> stats.Times:
        """Return times of the candidate and of the baselines in turns; see `benchmark`."""
        announce("timing the candidate in turns with the reference")
        times = benchmark.timed(self._processes, names)
        self.findings.extend(self._processes.notes)
        return times

    def baselines_alone(self, times: stats.Times) -> stats.Alone:
        """Return what the baselines take once the candidate is gone."""
        self.candidate.child.kill()
        rows = {name: lengths for name, lengths in times.rows.items() if name != "candidate"}
        enough = {name: stats.believed_from(times, name) for name in rows}
        found = self.oracle.ask(to_oracle(oracle_commands.Alone(rows, enough)))["ms"]
        return {name: (float(ms), float(row)) for name, (ms, row) in found.items()}

    def compiled(self, times: stats.Times) -> tuple[KernelTime, ...]:
        """What torch.compile launches for the reference; found out once for each problem and GPU.

        No verdict hangs on it: where it cannot be told, nothing is.
        """
        if "compile" not in times.rows:
            return ()
        key = digest(self._job.problem.source, self.environment().model_dump_json())
        file = Path(self._job.cache_dir) / "compiled" / f"{key[:32]}.json"
        try:
            return disk_cache.cached(file, Profile, self._compiled).kernels
        except _NotTold:
            return ()

    def _compiled(self) -> Profile:
        answer = self.oracle.attempt(to_oracle(oracle_commands.Launches("compile")), END_LIMIT_S)
        if not answer.get("kernels"):
            raise _NotTold
        return kernel_attribution.profile(answer["kernels"], set())

    def measured(self, times: stats.Times, alone: stats.Alone, seen: Profile) -> Measurement:
        """Return what the times come to;

        says what would shorten them. Raises Refused for impossible times.
        """
        gpu = self.environment().gpu or "unknown"
        found = stats.measurement(times, gpu, self._job.floor_ms, alone)
        with self.using():
            found = found.model_copy(update={"compile_kernels": self.compiled(times)})
        self.findings.extend(stats.findings(times, found, alone))
        if found.host_bound and self.build and self.build.backend == gpu_build.BACKEND:
            self.findings.append(stats.FAST_BUILD)
        impossible = stats.impossible(found)
        if impossible is not None:
            raise faults.Refused(Status.REJECTED, "measure", [impossible])
        kernels = self.build.kernels if self.build else ()
        advice = performance_advice.recommendation(found, self._job.problem.trace, kernels, seen)
        self.findings.extend([advice] if advice else [])
        return found

    def end(self) -> None:
        """End the candidate's process. Raises PassingFault where the GPU has suffered from it."""
        super().end()
        try:
            answer = self.oracle.attempt(to_oracle(oracle_commands.Health()), HEALTH_LIMIT_S)
        except ChildFault:
            answer = {}
        if not answer.get("healthy"):
            # The search for a cause may have cost this process its part of the GPU, and others nothing.
            gpu_health.require(self._job, self._backend.trusted_environment())

    def watch(self, announce: Announce) -> Profile:
        """What the GPU does during one call, last of all. Raises Refused where others do the work."""
        announce("watching what runs on the GPU")
        answer = self.candidate.tell(
            to_worker(worker_commands.Profile()), "running forward under the profiler"
        )
        self.candidate.check(answer, "integrity", "running forward under the profiler failed")
        try:
            seen = kernel_attribution.checked(
                answer["kernels"], self._backend.requests, self._job.library_ops
            )
        except faults.Refused:
            # Where a candidate goes on with torch because its extension did not build, that is the fault.
            self._backend.raise_hidden_failure()
            raise
        self.candidate.launches = sum(kernel.launches for kernel in seen.kernels if kernel.own)
        return seen
