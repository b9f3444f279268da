"""Metrics of the service for Prometheus."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from agent.api.service import Answer, State


class Metrics:
    """Prometheus counters of one process; the queue's figures are read from disk."""

    def __init__(self) -> None:
        self._all = CollectorRegistry()
        self._jobs = Gauge("kernelwright_jobs", "Jobs by state.", ["state"], registry=self._all)
        self._verdicts = Counter(
            "kernelwright_verdicts", "Verdicts since the start, by status.", ["status"], registry=self._all
        )
        self._seconds = Histogram(
            "kernelwright_judging_seconds", "Seconds that a job took.", registry=self._all,
            buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500),
        )  # fmt: skip

    def done(self, answer: Answer, seconds: float) -> None:
        """Count a finished job."""
        judged = answer.evaluation.status.value if answer.evaluation else "prepared"
        self._verdicts.labels("fault" if answer.fault else judged).inc()
        self._seconds.observe(seconds)

    def text(self, counts: Mapping[State, int]) -> bytes:
        for state, count in counts.items():
            self._jobs.labels(state).set(count)
        return generate_latest(self._all)
