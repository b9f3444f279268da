"""Problems at smaller sizes, end to end, and candidates that betray the real ones."""

from collections.abc import Iterable

import pytest
from problems.references import attempted, problem, reference, scaling

from agent import problems
from agent.errors import EnvironmentFault
from agent.problems import child, finding
from agent.problems.planning import FULL_PROTOCOL, Limits, cost
from agent.problems.scaling import Plan, Scaling
from agent.problems.sizes import sizes
from agent.records import Problem

USED = {
    "level1/gelu": {"batch_size": (8192, 32)},
    "level1/group_norm": {"batch_size": (112, 6), "height": (512, 32), "width": (512, 32)},
    "level1/layer_norm": {"batch_size": (16, 2), "sequence_length": (2048, 64)},
    "level1/logsumexp": {"batch_size": (4096, 32)},
    "level1/matmul": {"M": (4096, 256), "K": (2048, 512), "N": (3072, 448)},
    "level1/rms_norm": {"batch_size": (8, 2), "sequence_length": (2048, 64)},
    "level1/softmax": {"batch_size": (4096, 32)},
    "level2/conv_group_norm_tanh_hardswish_residual_logsumexp": {
        "batch_size": (128, 2),
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


def shipped(name: str) -> Problem:
    return problem(finding.source(problems.path(name)), name)


def planned_here(problem: Problem, tiers: Iterable[Limits], time_limit_s: float = 0) -> Plan | None:
    """What the child would do, in this process: torch is there already."""
    return Scaling(problem.source, problem.trace, attempted).least(*tiers)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "plan", planned_here)


def test_all_shipped_references_are_covered() -> None:
    assert set(USED) == set(problems.names())


@pytest.mark.parametrize("name", USED)
def test_shipped_references_become_affordable(name: str, in_process: None) -> None:
    real = shipped(name)
    small = problems.shrink(real)
    assert small.changed == USED[name]
    assert (small.full, small.fits, small.modulus, small.lost) == (False, True, 32, ())
    assert small.trace == attempted(small.source)
    assert [op.overload for op in small.trace.operations] == [op.overload for op in real.trace.operations]
    assert cost(small.trace).within(FULL_PROTOCOL)
    assert {size.name: size.value for size in sizes(small.source)} == {
        **{size.name: size.value for size in sizes(real.source)},
        **{name: used for name, (_, used) in small.changed.items()},
    }


def test_a_child_shrinks_as_this_process_does() -> None:
    real = shipped("level1/group_norm")
    expected = planned_here(real, [FULL_PROTOCOL])
    assert expected is not None
    small = problems.shrink(real)
    assert (small.source, small.sizes, small.trace) == (expected.source, expected.sizes, expected.trace)
    assert (small.full, small.fits) == (False, True)
    assert {112, 512, 512 * 512, 8 * 512 * 512, 112 * 64 * 512 * 512} <= set(small.hard)
    assert not {64, 8, 16, 32, 1024} & set(small.hard)


def test_an_affordable_problem_stays_at_its_real_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(*_: object) -> None:
        raise AssertionError("no child is needed")

    monkeypatch.setattr(child, "plan", unwanted)
    real = shipped("level1/softmax")
    same = problems.shrink(real, max_elements=10**9)
    assert (same.full, same.hard, same.source, same.modulus) == (True, (), real.source, None)
    assert problems.hard_coded("x = 16384", same) == ()


def test_where_nothing_can_change_the_real_sizes_stay(in_process: None) -> None:
    fixed = problem(
        reference(sizes="", inputs="torch.rand(2, 3)", forward="return x @ torch.rand(3, 1 << 29)")
    )
    same = problems.shrink(fixed)
    assert (same.full, same.fits, same.hard, same.source) == (True, False, (), fixed.source)


def test_a_search_without_an_end_is_no_fault_of_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = "import time\nif batch < 1 << 20:\n    time.sleep(60)\n"
    source = reference(sizes="batch = 1 << 20", inputs="torch.rand(batch, 64)", forward="return x.tanh()")
    real = Problem(name="slow", source=source + slow, trace=problem(source).trace)
    with pytest.raises(EnvironmentFault, match="no sizes were found to judge at: slow"):
        problems.shrink(real, time_limit_s=1)


def test_a_candidate_is_searched_for_the_sizes_that_changed(in_process: None) -> None:
    small = problems.shrink(shipped("level1/group_norm"))
    candidate = 'N = 112\nsource = """\nconst int hw = 262144; // 512\nint c = 64;\n"""\nmodel(N)\n'
    assert problems.hard_coded(candidate, small) == ((112, 1), (262144, 3))
    assert problems.hard_coded("x.size(0) * 64 + 8", small) == ()


CONVOLUTION = reference(
    sizes="batch, wide, narrow, extent = 32, 64, 128, 256",
    arguments="wide, narrow",
    given="wide, narrow",
    init="self.conv = nn.Conv2d(wide, narrow, 3, padding=1)",
    forward="return self.conv(x)",
    inputs="torch.rand(batch, wide, extent, extent)",
)


def test_a_convolution_keeps_its_channels_and_gives_up_its_batch_and_space(in_process: None) -> None:
    small = problems.shrink(problem(CONVOLUTION))
    assert small.changed == {"batch": (32, 2), "extent": (256, 16)}
    assert (small.modulus, small.lost) == (16, ())


def test_sizes_inside_functions_and_defaults_change_where_nothing_else_is_affordable(
    in_process: None,
) -> None:
    source = reference(
        sizes="",
        arguments="extent=96, features=4096",
        init="self.line = nn.Linear(3 * extent * extent, features)",
        forward="return self.line(x.flatten(1))",
        inputs="torch.rand(40, 3, 96, 96)",
    )
    small = problems.shrink(problem(source))
    assert small.hands_over_defaults
    assert small.fits
    used = {name: used for name, (_, used) in small.sizes.items()}
    handed = small.trace.init_inputs
    assert handed[: len(handed)] == (used["Model(extent)"], used["Model(features)"])[: len(handed)]
    assert used["Model(extent)"] == used["get_inputs[2]"] == used["get_inputs[3]"]


def test_what_is_too_large_for_all_draws_may_cost_more(in_process: None) -> None:
    source = reference(
        sizes="batch = 64",
        init="""
        self.convs = nn.ModuleList(nn.Conv2d(64, 64, 3) for _ in range(4))
        self.line = nn.Linear(64 * 32 * 32, 8)
        """,
        forward="""
        for conv in self.convs:
            x = conv(x)
        return self.line(x.flatten(1))
        """,
        inputs="torch.rand(batch, 64, 40, 40)",
    )
    small = problems.shrink(problem(source))
    assert small.fits
    assert small.changed == {"batch": (64, 2)}
    assert problems.few_draws(small.trace)
    assert not problems.few_draws(problems.shrink(problem(CONVOLUTION)).trace)


def test_what_is_lost_is_said() -> None:
    source = reference(
        sizes="batch = 2",
        init="self.convs = nn.ModuleList(nn.Conv2d(32, 32, 3, stride=2, padding=1) for _ in range(4))",
        forward="for conv in self.convs:\n    x = conv(x)\nreturn x.mean((2, 3))",
        inputs="torch.rand(batch, 32, 1024, 1024)",
    )
    made = scaling(source).least(Limits(max_elements=100_000, max_macs=5_000_000))
    assert made is not None
    assert "dimensions that differ at the real sizes, or are more than 1 there" in made.lost
    loose = scaling(source).least(Limits(max_elements=10**7, max_macs=10**9))
    assert loose is not None
    assert loose.lost == ()
