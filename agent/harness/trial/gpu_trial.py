"""Trial on a GPU: timing, profiling of a call, calls under a tool, and the GPU's health."""

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
"""Maximum operations of a reference that is run ahead. A larger one takes longer to run than it saves."""


class Hung(Exception):
    """Exception raised if calls under a tool did not finish; `log` is the output until then."""

    def __init__(self, log: str) -> None:
        super().__init__("it gave no answer in time")
        self.log = log


class _NotTold(Exception):
    """Exception raised if CUDA's profiler reported no kernel."""


class GpuTrial(Trial):
    """Trial that also times and profiles the candidate on a GPU."""

    def load(self, *, ahead: bool = True) -> None:
        """Load the candidate and, with `ahead`, meanwhile warm up oracle and noop worker (`trial.ahead`).

        A second look skips the warm-up, because it may end before it needs the GPU.
        """
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
        """Return the warm-up steps of the oracle and, if timing follows, of the noop worker."""

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
        """Return a section in which no other trial uses the GPU."""
        return self._backend.gpu_lock.exclusive()

    @property
    def requests(self) -> tuple[BuildRequest, ...]:
        """All builds that the candidate has requested so far."""
        return tuple(self._backend.requests)

    def instantiate(self) -> None:
        """Make an instance of the candidate. Raises Refused."""
        self._instance(secret_seed(), "set0")

    def call_under_a_tool(self, calls: int, limit_s: float) -> str:
        """Make `calls` calls without checking their outputs. Raises Hung after `limit_s` seconds.

        Returns the output of the worker and of the tool that runs it.
        """
        until, drawn = time.monotonic() + limit_s, dict[str, Any]()
        try:
            for number in range(1, calls + 1):
                drawn = self._drawn_for(Draw(), f"draw{number}", drawn)
                self.limits.most_s = max(until - time.monotonic(), 0.1)
                self._call_on(drawn, Draw(), f"draw{number}")
        except faults.Refused as refused:
            # A candidate may fail at shrunken sizes; the tool's output until then still counts.
            if refused.status is Status.TIMEOUT:
                raise Hung(self.candidate.child.finish(END_LIMIT_S)) from None
        return self.candidate.child.finish(END_LIMIT_S)

    def prepare_timing(self) -> list[str]:
        """Prepare the timed processes and return the names of the available baselines."""
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
        """End the candidate's process and return the baselines' times without it."""
        self.candidate.child.kill()
        rows = {name: lengths for name, lengths in times.rows.items() if name != "candidate"}
        enough = {name: stats.believed_from(times, name) for name in rows}
        found = self.oracle.ask(to_oracle(oracle_commands.Alone(rows, enough)))["ms"]
        return {name: (float(ms), float(row)) for name, (ms, row) in found.items()}

    def compiled(self, times: stats.Times) -> tuple[KernelTime, ...]:
        """Return the kernels that torch.compile launches for the reference, cached per problem and GPU.

        No verdict depends on these kernels, so the result is empty if they are unknown.
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
        """Return the measurement and add findings, including a recommendation on the candidate's speed.

        Raises Refused for times that are faster than possible.
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
        """End the candidate's process. Raises PassingFault if it left the GPU broken."""
        super().end()
        try:
            answer = self.oracle.attempt(to_oracle(oracle_commands.Health()), HEALTH_LIMIT_S)
        except ChildFault:
            answer = {}
        if not answer.get("healthy"):
            # The oracle's own search for a fault's cause may have broken its context but not the GPU.
            gpu_health.require(self._job, self._backend.trusted_environment())

    def watch(self, announce: Announce) -> Profile:
        """Return the profile of one further call. Raises Refused if foreign kernels do the work.

        The call comes after all other calls.
        """
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
            # A failed build, after which the candidate fell back to torch, is the better explanation.
            self._backend.raise_hidden_failure()
            raise
        self.candidate.launches = sum(kernel.launches for kernel in seen.kernels if kernel.own)
        return seen
