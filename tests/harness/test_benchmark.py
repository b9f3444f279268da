"""The clock on processes that are played: what counts, what is said of it, and which outputs are compared."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from agent.harness.messages.oracle_client import OracleClient
from agent.harness.task.faults import Refused
from agent.harness.timing import benchmark, stats
from agent.harness.timing.processes import TimedProcesses
from agent.records import Finding, MoreBaselines, Percentiles
from agent.sandbox import Child


def timed(processes: TimedProcesses, more: tuple[MoreBaselines, ...] = ()) -> stats.Times:
    return benchmark.timed(processes, benchmark.prepared(processes, more=more))


class Played:
    """Two workers and an oracle on a time of their own; `took` are the milliseconds of a call."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, took: float, claimed: float, row: float = 0.0
    ) -> None:
        self.took, self.claimed, self.row = took, claimed, row or took
        self.now = 0.0
        self.compared = self.refreshed = 0
        self.wrong = False
        self.calls: list[str] = []
        self.fresh = took
        self.doubtful = False
        self.room = 0
        monkeypatch.setattr("agent.harness.timing.benchmark.time.monotonic", lambda: self.now)

    def processes(self) -> TimedProcesses:
        oracle = OracleClient(cast(Child, PlayedOracle(self)), "a problem")
        return TimedProcesses(PlayedWorker(self.candidate), PlayedWorker(self.noop), oracle)

    def candidate(self, command: dict[str, Any]) -> dict[str, Any]:
        self.calls.append("candidate")
        takes = {"repeated": self.row, "row": self.fresh, "timed": self.took}.get(command["do"], 0.0)
        self.now += takes * command.get("times", 1) / 1000
        return {"ms": self.claimed, "outputs": {}, "types": [], "devices": [], "there": True}

    def noop(self, command: dict[str, Any]) -> dict[str, Any]:
        self.now += 0.0002
        return {"ms": 0.01}

    def oracle(self, command: dict[str, Any]) -> dict[str, Any]:
        answers: dict[str, dict[str, Any]] = {
            "baselines": {"names": ["eager", *command.get("more", ())]},
            "card": {"card": {}},
            "slope": {"ms": 2.0},
            "glance": {"doubtful": self.doubtful},
            "room_for_row": {"calls": self.room, "row": {}},
        }
        if command["do"] == "refresh":
            self.refreshed += 1
        if command["do"] == "timed":
            self.calls.append(command["what"])
            return {"ms": 2.0}
        return answers.get(command["do"], {})

    def weigh(self, command: dict[str, Any]) -> dict[str, Any]:
        self.compared += 1
        found = Finding(kind="wrong-values", message="other numbers").model_dump(mode="json")
        return {"finding": found} if self.wrong else {"max_abs_err": 0.0, "max_rel_err": 0.0, "ratio": 0.0}


class PlayedWorker:
    def __init__(self, timed: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.timed = timed


class PlayedOracle:
    """In the place of the oracle's process."""

    def __init__(self, played: Played) -> None:
        self._played = played

    def ask(self, command: dict[str, Any], limit_s: float) -> dict[str, Any]:
        return (self._played.weigh if command["do"] == "judge_taken" else self._played.oracle)(command)


def test_the_events_count_where_the_clocks_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    times = timed(Played(monkeypatch, took=1.2, claimed=1.0, row=1.0).processes())
    found = stats.measurement(times, "a GPU", 0.5, {})
    assert found.candidate_ms.p50 == pytest.approx(1.0)
    assert found.speedup == pytest.approx(2.0)
    assert found.roofline_fraction == pytest.approx(0.5)
    assert found.stable
    assert list(stats.findings(times, found, {})) == []


def test_events_that_say_too_little_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    times = timed(Played(monkeypatch, took=5.2, claimed=0.1, row=0.1).processes())
    found = stats.measurement(times, "a GPU", None, {})
    assert found.candidate_ms.p50 == pytest.approx(5.0, rel=0.05)
    assert [finding.kind for finding in stats.findings(times, found, {})] == ["clocks-disagree"]


def test_calls_in_a_row_count_where_the_host_holds_them_up(monkeypatch: pytest.MonkeyPatch) -> None:
    times = timed(Played(monkeypatch, took=0.3, claimed=0.1, row=0.15).processes())
    found = stats.measurement(times, "a GPU", None, {})
    assert found.candidate_ms.p50 == pytest.approx(0.15)
    assert [finding.kind for finding in stats.findings(times, found, {})] == ["host-bound"]
    assert found.host_bound


def test_every_round_has_fresh_contents_and_turns_the_order_round(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, took=1.2, claimed=1.0)
    times = timed(played.processes())
    rows = 1 + 2 * benchmark.SLOPES
    assert played.refreshed == len(times.rounds) + benchmark.WARM_UP + rows
    calls = played.calls[: 2 * len(times.rounds)]
    rounds = list(zip(calls[::2], calls[1::2], strict=True))
    assert set(rounds) == {("candidate", "eager"), ("eager", "candidate")}


def test_rounds_go_on_until_the_medians_are_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, took=1.2, claimed=1.0)
    assert len(timed(played.processes()).rounds) == benchmark.LEAST_ROUNDS
    kinds = {"uncertain": 0.02, "certain": 0.001}
    ended = {}
    for kind, noise in kinds.items():
        noisy = Played(monkeypatch, took=1.2, claimed=1.0)
        answers = noisy.candidate

        def candidate(command: dict[str, Any], noisy: Any = noisy, answers: Any = answers,
                      noise: float = noise) -> dict[str, Any]:  # fmt: skip
            noisy.claimed = 1.0 + noise * (len(noisy.calls) % 7)
            return dict(answers(command))

        monkeypatch.setattr(noisy, "candidate", candidate)
        ended[kind] = len(timed(noisy.processes()).rounds)
    assert ended["uncertain"] == benchmark.ROUNDS > ended["certain"]


@pytest.mark.parametrize(
    ("slope", "noise", "wanted"),
    [(2.4, 0.0, benchmark.SLOPES), (2.4, 0.1, benchmark.SLOPES), (2.0, 0.1, 1), (1.5, 0.1, 1)],
)
def test_slopes_that_may_count_are_taken_several_times(
    monkeypatch: pytest.MonkeyPatch, slope: float, noise: float, wanted: int
) -> None:
    """Calls of the reference take 2 ms: those in a row that take no longer say nothing."""
    played, taken = Played(monkeypatch, took=1.2, claimed=1.0), list[float]()
    answers = played.oracle

    def oracle(command: dict[str, Any]) -> dict[str, Any]:
        if command["do"] != "slope":
            return answers(command)
        taken.append(slope + noise * (len(taken) % 3))
        return {"ms": taken[-1]}

    monkeypatch.setattr(played, "oracle", oracle)
    assert timed(played.processes()).slopes["eager"] == pytest.approx(min(taken))
    assert len(taken) == wanted


def test_outputs_of_timed_calls_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, took=1.2, claimed=1.0)
    timed(played.processes())
    assert 2 <= played.compared < benchmark.ROUNDS
    played.wrong = True
    with pytest.raises(Refused, match="In a timed call: other numbers"):
        timed(played.processes())


def test_no_kernel_is_faster_than_its_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    times = timed(Played(monkeypatch, took=1.2, claimed=1.0, row=1.0).processes())
    finding = stats.impossible(stats.measurement(times, "a GPU", 1.2, {}))
    assert finding is not None
    assert finding.kind == "faster-than-possible"
    assert "1 ms is less than 90% of the 1.2 ms" in finding.message
    assert stats.impossible(stats.measurement(times, "a GPU", 1.05, {})) is None
    assert stats.impossible(stats.measurement(times, "a GPU", None, {})) is None


def test_a_candidate_cannot_slow_its_rival(monkeypatch: pytest.MonkeyPatch) -> None:
    times = timed(Played(monkeypatch, took=1.2, claimed=1.0, row=1.0).processes())
    alone = {"eager": (0.5, 0.4)}
    found = stats.measurement(times, "a GPU", None, alone)
    assert found.speedup == pytest.approx(0.5)
    assert [finding.kind for finding in stats.findings(times, found, alone)] == ["reference-slowed"]
    host_bound = stats.measurement(times, "a GPU", None, {"eager": (0.5, 0.8)})
    assert host_bound.speedup == pytest.approx(0.8)
    noise = stats.measurement(times, "a GPU", None, {"eager": (1.95, 1.9)})
    assert noise.speedup == pytest.approx(2.0)


def test_no_baseline_is_quoted_as_the_candidate_has_slowed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    times = timed(Played(monkeypatch, took=1.2, claimed=1.0, row=1.0).processes())
    both = [entry._replace(events=entry.events | {"compile": 1.9}) for entry in times.rounds]
    times = times._replace(rounds=both, slopes=times.slopes | {"compile": 1.9})
    found = stats.measurement(times, "a GPU", None, {"eager": (2.0, 2.0), "compile": (0.7, 0.7)})
    assert found.baseline == "compile"
    assert found.speedup == pytest.approx(0.7)


def test_calls_that_only_repeat_themselves_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, took=0.02, claimed=0.01, row=0.01)
    played.room, played.fresh = benchmark.FRESH_MOST, 0.05
    times = timed(played.processes())
    assert times.fresh == pytest.approx(0.05)
    found = stats.measurement(times, "a GPU", None, {})
    assert found.candidate_ms.p50 == pytest.approx(0.05)
    assert [finding.kind for finding in stats.findings(times, found, {})] == ["clocks-disagree"]


def test_outputs_that_leave_a_doubt_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, took=1.2, claimed=1.0)
    played.doubtful, played.room = True, benchmark.FRESH_MOST
    times = timed(played.processes())
    rows = 1 + 2 * (benchmark.SLOPES + 2 * benchmark.FRESH_SLOPES)
    assert played.compared == len(times.rounds) + benchmark.WARM_UP + rows


def test_a_new_best_is_clear_of_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    times = timed(Played(monkeypatch, took=1.2, claimed=1.0, row=1.0).processes())
    old = stats.measurement(times, "a GPU", None, {}).model_copy(update={"speedup_interval": (1.9, 2.1)})
    near = old.model_copy(update={"speedup_interval": (2.05, 2.2)})
    clear = old.model_copy(update={"speedup_interval": (2.15, 2.2)})
    assert old.beats(None)
    assert not near.beats(old)
    assert clear.beats(old)
    assert not old.beats(clear)


def test_a_new_best_is_clear_of_one_that_was_held_against_another_baseline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = timed(Played(monkeypatch, took=1.2, claimed=1.0, row=1.0).processes())
    old = stats.measurement(times, "a GPU", None, {}).model_copy(update={"speedup_interval": (1.9, 2.1)})
    spans = Percentiles(p20=0.99, p50=0.99, p80=0.99)
    near = old.model_copy(update={"baseline": "compile", "compile_ms": old.eager_ms, "candidate_ms": spans})
    assert not near.beats(old)
    spans = Percentiles(p20=0.8, p50=0.8, p80=0.8)
    clear = near.model_copy(update={"candidate_ms": spans, "speedup_interval": (2.45, 2.55)})
    assert clear.beats(old)


def test_a_baseline_that_was_asked_for_is_timed_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, took=1.0, claimed=1.0, row=1.0)
    times = timed(played.processes(), more=("max-autotune",))
    assert played.calls.count("max-autotune") >= len(times.rounds)
    found = stats.measurement(times, "a GPU", None, {})
    assert found.more_ms.keys() == {"max-autotune"}
    assert found.baselines.keys() == {"eager", "max-autotune"}
    assert found.speedup == pytest.approx(2.0)


def test_clocks_that_disagree_are_read_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, took=1.2, claimed=1.0, row=1.0)
    played.room, played.fresh = 8, 5.0
    read: list[float | None] = []

    fresh = benchmark._fresh

    def once(processes: TimedProcesses, about: float) -> float | None:
        read.append(fresh(processes, about))
        played.fresh = 1.0  # what held it up has ended
        return read[-1]

    monkeypatch.setattr(benchmark, "_fresh", once)
    times = timed(played.processes())
    assert read == [pytest.approx(5.0, rel=0.01), pytest.approx(1.0, rel=0.01)]
    found = stats.measurement(times, "a GPU", None, {})
    assert found.candidate_ms.p50 == pytest.approx(1.0)
    assert list(stats.findings(times, found, {})) == []
