"""Which baselines there are, by what was asked for; nothing is timed or compiled."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent.harness.oracle import baselines
from agent.harness.oracle.baselines import Baselines
from agent.harness.oracle.transport import Exchange
from agent.harness.truth.reference import Reference
from agent.harness.worker.timing import Sample


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Baselines:
    monkeypatch.setattr(
        baselines, "Timer", lambda: SimpleNamespace(timed=lambda call, flushes: (Sample(1.0, 0.1, False),))
    )
    monkeypatch.setattr(Baselines, "_graphed", lambda self, call: call)
    monkeypatch.setattr(Baselines, "_compiled", lambda self, mode=None: lambda: mode)
    return Baselines(cast(Reference, None), cast(Exchange, None), [], None)


@pytest.mark.parametrize(
    ("more", "bound_ms", "names"),
    [
        ((), 0.2, ["eager", "compile"]),
        ((), 2.0, ["eager", "compile", "graph"]),
        (("max-autotune",), 0.2, ["eager", "compile", "max-autotune"]),
        (("graphs",), 0.2, ["eager", "compile", "graph", "compile-graph"]),
        (
            ("max-autotune", "graphs"), 0.2,
            ["eager", "compile", "max-autotune", "graph", "compile-graph", "max-autotune-graph"],
        ),
    ],
)  # fmt: skip
def test_what_is_asked_for_joins(
    made: Baselines, more: tuple[str, ...], bound_ms: float, names: list[str]
) -> None:
    assert made.prepare(True, bound_ms, more) == names


def test_max_autotune_does_not_replay_a_graph_by_itself(made: Baselines) -> None:
    made.prepare(True, 0.2, ("max-autotune",))
    assert made._calls["max-autotune"]() == "max-autotune-no-cudagraphs"


def test_what_cannot_be_compiled_has_no_graph(made: Baselines, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Baselines, mode: str | None = None) -> Any:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(Baselines, "_compiled", failing)
    assert made.prepare(True, 0.2, ("max-autotune", "graphs")) == ["eager", "graph"]
    assert made.problems == dict.fromkeys(("compile", "max-autotune"), "RuntimeError: no compiler")
