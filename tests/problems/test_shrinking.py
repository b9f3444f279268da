"""Problems at smaller sizes, end to end, and candidates that betray the real ones."""

import pytest

from agent import problems
from agent.problems import child, finding, shrinking, tracer
from agent.problems.planning import Limits, Plan, cost, plan
from agent.problems.sizes import module_sizes
from agent.records import Problem, Trace

USED = {
    "level1/gelu": {"batch_size": (8192, 1024), "features": (11008, 672)},
    "level1/group_norm": {
        "batch_size": (112, 16),
        "features": (64, 64),
        "height": (512, 32),
        "width": (512, 32),
    },
    "level1/layer_norm": {"sequence_length": (2048, 32), "hidden_size": (4096, 2048)},
    "level1/logsumexp": {"batch_size": (4096, 1024), "vocabulary": (32000, 1984)},
    "level1/matmul": {"M": (4096, 256), "K": (2048, 512), "N": (3072, 384)},
    "level1/rms_norm": {"sequence_length": (2048, 32), "hidden_size": (4096, 4096)},
    "level1/softmax": {"batch_size": (4096, 512), "features": (16384, 2048)},
    "level2/conv_group_norm_tanh_hardswish_residual_logsumexp": {
        "batch_size": (128, 32),
        "out_channels": (64, 64),
        "height": (128, 32),
        "width": (128, 32),
    },
    "level2/linear_group_norm_min_bias": {
        "batch_size": (1024, 32),
        "in_features": (8192, 1024),
        "out_features": (8192, 1024),
        "num_groups": (512, 128),
    },
}
BOUNDS = Limits(max_elements=shrinking.MAX_ELEMENTS, max_macs=shrinking.MAX_MACS, seconds=60)


def shipped(name: str) -> Problem:
    source = finding.source(problems.path(name))
    return Problem(name=name, source=source, trace=tracer.trace(source))


def planned_here(problem: Problem, bounds: Limits = BOUNDS) -> Plan:
    """What the child would do, in this process: torch is there already."""

    def attempt(source: str) -> Trace | None:
        try:
            return tracer.trace(source)
        except tracer.ReferenceFault:
            return None

    return plan(problem.source, problem.trace, bounds, attempt)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(source: str, real: Trace, limits: Limits, shown_as: str, time_limit_s: float) -> Plan:
        return planned_here(Problem(name=shown_as, source=source, trace=real), limits)

    monkeypatch.setattr(child, "plan", planned)


def test_all_shipped_references_are_covered() -> None:
    assert set(USED) == set(problems.names())


@pytest.mark.parametrize("name", USED)
def test_shipped_references_become_affordable(name: str, in_process: None) -> None:
    problem = shipped(name)
    small = problems.shrink(problem)
    assert small.sizes == USED[name]
    assert not small.full
    assert small.trace == tracer.trace(small.source)
    assert [op.overload for op in small.trace.operations] == [op.overload for op in problem.trace.operations]
    pairs = zip(module_sizes(problem.source), module_sizes(small.source), strict=True)
    assert all(before.value % 32 == after.value % 32 for before, after in pairs)
    # The convolution is at the smallest sizes that the rules allow, about twice the budget.
    assert small.fits == (name != "level2/conv_group_norm_tanh_hardswish_residual_logsumexp")
    assert cost(small.trace).macs <= 140_000_000


def test_a_child_shrinks_as_this_process_does() -> None:
    problem = shipped("level1/group_norm")
    expected = planned_here(problem)
    small = problems.shrink(problem, time_limit_s=120)
    assert (small.source, small.sizes, small.trace) == expected
    assert (small.full, small.fits) == (False, True)
    assert {112, 512, 512 * 512, 8 * 512 * 512, 112 * 64 * 512 * 512} <= set(small.hard)
    assert not {64, 8, 16, 32, 1024} & set(small.hard)


def test_an_affordable_problem_stays_at_its_real_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(*_: object) -> None:
        raise AssertionError("no child is needed")

    monkeypatch.setattr(child, "plan", unwanted)
    problem = shipped("level1/softmax")
    same = problems.shrink(problem, max_elements=10**9)
    assert (same.full, same.fits, same.hard, same.source) == (True, True, (), problem.source)
    assert problems.hard_coded("x = 16384", same) == ()


def test_where_nothing_can_change_the_real_sizes_stay(in_process: None) -> None:
    source = shipped("level1/softmax").source.replace("batch_size, features)", "4096, 16384)")
    problem = Problem(name="fixed", source=source, trace=tracer.trace(source))
    same = problems.shrink(problem)
    assert (same.full, same.fits, same.hard, same.source) == (True, False, (), source)


def test_a_candidate_is_searched_for_the_sizes_that_changed(in_process: None) -> None:
    small = problems.shrink(shipped("level1/group_norm"))
    candidate = 'N = 112\nsource = """\nconst int hw = 262144; // 512\nint c = 64;\n"""\nmodel(N)\n'
    assert problems.hard_coded(candidate, small) == ((112, 1), (262144, 3))
    assert problems.hard_coded("x.size(0) * 64 + 8", small) == ()
