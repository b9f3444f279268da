"""A trial on a GPU: timing, what runs there during a call, one call under a tool, and the GPU's health."""

from typing import Any

from agent import gpu_build
from agent.diagnosis import slow
from agent.errors import EnvironmentFault
from agent.harness import clock, faults, measuring, own_work
from agent.harness.bench import Bench
from agent.harness.job import END_LIMIT_S, HEALTH_LIMIT_S, Announce, secret_seed
from agent.harness.protocol import Draw
from agent.harness.trial import Trial
from agent.records import Measurement, Profile, Status
from agent.sandbox import ChildFault


class GpuTrial(Trial):
    """What can be done with a candidate on a GPU beside verifying it."""

    def call_once(self) -> str:
        """One call whose outputs nobody looks at; what the worker and the tool that runs it have printed."""
        try:
            manifest = self._consult({"do": "parameters", "seed": secret_seed(), "stem": "set0"})
            self._check(self._tell({"do": "instance", **manifest}, "creating ModelNew"), "run", "ModelNew")
            self._call_on(self._drawn_for(Draw(), "draw1", {}), Draw(), "draw1")
        except faults.Refused:
            # At other sizes than its own a candidate may fail; what it did until then counts all the same.
            pass
        return self._worker.finish(END_LIMIT_S)

    def time(self, announce: Announce) -> measuring.Times:
        """Times of the candidate and of the reference in turns; see `clock`."""
        announce("timing the candidate in turns with the reference")
        assert self._nothing is not None
        self._consult({"do": "rest"})
        self._nothing.prepare(self._given)
        bench = Bench(self._timed, self._nothing.ask, self._consult, self._weighed)
        times = clock.timed(bench)
        self.findings += bench.notes
        return times

    def alone(self, times: measuring.Times) -> measuring.Alone:
        """What the baselines take once the candidate is gone."""
        self._worker.kill()
        many = {name: number for name, number in times.many.items() if name != "candidate"}
        found = self._consult({"do": "alone", "few": clock.FEW, "many": many})["ms"]
        return {name: (float(ms), float(row)) for name, (ms, row) in found.items()}

    def measured(self, times: measuring.Times, seen: Profile, gpu: str | None) -> Measurement:
        """What the times come to, and what would shorten them. Raises Refused for times that cannot be."""
        alone = self.alone(times)
        found = measuring.measurement(times, gpu or "unknown", self._job.floor_ms, alone)
        self.findings += measuring.findings(times, found, alone)
        if found.host_bound and self.build and self.build.lane == gpu_build.LANE:
            self.findings.append(measuring.FAST_BUILD)
        impossible = measuring.impossible(found)
        if impossible is not None:
            raise faults.Refused(Status.REJECTED, "measure", [impossible])
        kernels = self.build.kernels if self.build else ()
        advice = slow.recommendation(found, self._job.problem.trace, kernels, seen)
        self.findings += [advice] if advice else []
        return found

    def end(self) -> None:
        """Ends the candidate's process. Raises EnvironmentFault where the GPU has suffered from it."""
        super().end()
        try:
            answer = self._oracle.ask({"do": "health"}, HEALTH_LIMIT_S)
        except ChildFault as fault:
            raise EnvironmentFault(f"the GPU no longer answers: the reference's process {fault}") from None
        if not answer.get("healthy"):
            raise EnvironmentFault(f"the GPU no longer works: {answer.get('error', 'its sums are wrong')}")

    def _timed(self, command: dict[str, Any]) -> dict[str, Any]:
        answer = self._tell(command, "timing")
        self._check(answer, "measure", "timing the candidate failed")
        return answer

    def watch(self, announce: Announce) -> Profile:
        """What the GPU does during one call, last of all. Raises Refused where others do the work."""
        announce("watching what runs on the GPU")
        answer = self._tell({"do": "profile"}, "running forward under the profiler")
        self._check(answer, "integrity", "running forward under the profiler failed")
        seen = own_work.checked(answer.get("kernels"), self._lane.requests, self._job.library_ops)
        self.launches = sum(kernel.launches for kernel in seen.kernels if kernel.own)
        return seen
