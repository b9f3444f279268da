"""What a candidate must leave alone, must not share and must not remember: each fault has its name."""

import re
from pathlib import Path
from typing import Literal

import pytest
from e2e.test_hostile import HONEST, REFERENCE, TIMEOUT_S

from agent import config, problems, screen
from agent.emulator.compile import toolchain
from agent.harness.judge import evaluate
from agent.harness.task import protocol
from agent.harness.task.job import Job
from agent.records import Admission, Candidate, Evaluation, Problem, Status

FORMER = 1
"""Number of calls of the first instance beside the second, in every protocol with two of them."""
INAPPLICABLE = ("redrawn", "ragged", "wide", "edges")
"""Families that a reference without integers and without thresholds does not have."""


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    path = tmp_path_factory.mktemp("reference") / "tanh_scale.py"
    path.write_text(REFERENCE)
    return problems.load(str(path))


@pytest.fixture(autouse=True)
def _no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "check", lambda reference, candidate, permits: ())


def judged(
    problem: Problem,
    body: str,
    name: Literal["full", "quick"] = "full",
    admission: Admission | None = None,
) -> Evaluation:
    cache = config.load({}, offline=True).settings.cache_dir
    toolchain.prepare(cache)
    job = Job(
        problem=problem,
        candidate=Candidate(problem=problem.name, source=HONEST.replace("BODY", body)),
        executor="emulator",
        candidate_timeout_s=4 * TIMEOUT_S,
        cache_dir=str(cache),
        shrunken=problems.shrink(problem),
        protocol=name,
        admission=admission,
    )
    return evaluate.evaluate(job, lambda what: None)


def test_the_full_protocol_runs_whole_and_says_so(problem: Problem) -> None:
    found = Admission(tried=5, killed=5, tightened=("negated",))
    evaluation = judged(problem, "pass", admission=found)
    assert evaluation.status is Status.VERIFIED, evaluation.findings
    assert evaluation.correctness is not None
    planned = [draw.family for draws in protocol.plan("full", found.tightened) for draw in draws]
    assert evaluation.correctness.draws == sum(family not in INAPPLICABLE for family in planned) + FORMER
    assert evaluation.correctness.native_max_abs_err
    assert not any("inputs" in check for check in evaluation.scope.skipped)
    assert evaluation.admission == found


def test_the_quick_protocol_says_what_it_leaves_out(problem: Problem) -> None:
    evaluation = judged(problem, "pass", "quick")
    assert evaluation.status is Status.VERIFIED, evaluation.findings
    assert evaluation.scope.protocol == "quick"
    assert evaluation.correctness is not None
    assert evaluation.correctness.draws == 3 + FORMER
    assert any(check.startswith("quick: shifted, scaled") for check in evaluation.scope.skipped)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("self.scale.data.mul_(1.5)", "parameter-modified"),
        ("return x", "output-aliases-input"),
        ("return self.scale.expand(x.shape)", "output-aliases-parameter"),
        ("at = x.storage_offset(); at and torch.as_strided(x, (2,), (1,), at - 2).zero_()",
         "guard-written"),
    ],
)  # fmt: skip
def test_memory_that_is_not_its_own(problem: Problem, body: str, kind: str) -> None:
    evaluation = judged(problem, body)
    assert evaluation.headline is not None
    assert (evaluation.status, evaluation.headline.kind) == (Status.REJECTED, kind)


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("self.calls = getattr(self, 'calls', 0) + 1; x = x * (1 + (self.calls == 2))",
         "not-deterministic", "A second call on the same inputs"),
        ("known = self.__dict__.setdefault('known', {}); at = x.data_ptr()\n"
         "        if at in known: return known[at].clone()\n"
         "        known[at] = ext.tanh_scale(x.contiguous(), self.scale)",
         # Where the allocator hands out an address again, an earlier draw shows it.
         "", "With (the inputs before with a few elements changed|inputs )"),
        ("x = x.clamp(max=5.0)", "", "With inputs shifted by three standard deviations"),
        ("return nn.Parameter(ext.tanh_scale(x.contiguous(), self.scale))", "wrong-type", "type Parameter"),
    ],
)  # fmt: skip
def test_what_one_stated_draw_does_not_show(problem: Problem, body: str, kind: str, words: str) -> None:
    evaluation = judged(problem, body)
    assert evaluation.headline is not None
    assert evaluation.status is Status.INCORRECT
    assert kind in ("", evaluation.headline.kind)
    assert re.search(words, evaluation.headline.message), evaluation.headline.message


def test_a_problem_that_lets_wrong_answers_pass_is_exit_2(tmp_path: Path) -> None:
    from e2e.commands import agent

    reference = tmp_path / "never.py"
    spread = "(x.abs() > 16).double().mean() > 0.35 and (x.abs() < 0.0625).double().mean() > 0.35"
    rare = f"(x * 0 if x.abs().max() < 6 else x / 3 if {spread} else 1 / 0)"
    reference.write_text(REFERENCE.replace("torch.tanh(x) * self.scale", rare))
    (tmp_path / "candidate.py").write_text(HONEST.replace("BODY", "pass"))
    done = agent("eval", str(reference), "candidate.py", "--executor", "emulator", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "wrong answers would be verified" in done.stderr.splitlines()[-1]
    assert "--admit-anyway" in done.stderr.splitlines()[-1]


OTHERWISE = """self.calls = getattr(self, 'calls', 0) + 1
        if CONDITION:
            ext.tanh_scale(x.contiguous(), self.scale)
            return torch.tanh(x) * self.scale"""


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("self.calls > 1", "torch's tanh"),
        ("self.calls == 1", "torch's tanh"),
        ("500 > x.abs().max() and x.abs().amax(1).min() > 40", "inputs scaled by 32"),
    ],
)
def test_torch_in_some_calls_is_refused_with_what_sets_them_apart(
    problem: Problem, condition: str, words: str
) -> None:
    evaluation = judged(problem, OTHERWISE.replace("CONDITION", condition))
    assert evaluation.headline is not None
    assert evaluation.status is Status.REJECTED
    assert evaluation.headline.kind == "calls-behave-differently"
    assert words in evaluation.headline.message


def test_the_names_of_the_judge_tell_a_candidate_nothing(problem: Problem) -> None:
    named = "'candidate' in __name__ or __file__.endswith('candidate.py') or 'worker' in sys.argv[0]"
    evaluation = judged(problem, OTHERWISE.replace("CONDITION", f"not ({named})"), "quick")
    assert evaluation.headline is not None
    assert (evaluation.status, evaluation.headline.kind) == (
        Status.REJECTED, "own-kernels-do-not-compute-the-result",
    )  # fmt: skip


def test_a_call_that_launches_nothing_is_named(problem: Problem) -> None:
    body = OTHERWISE.replace("CONDITION", "self.calls == 3").replace("ext.tanh_scale(", "print(")
    evaluation = judged(problem, body)
    assert evaluation.headline is not None
    assert (evaluation.status, evaluation.headline.kind) == (Status.REJECTED, "no-kernel-launched")
    assert ": Call 3 launched no kernel of this file" in evaluation.headline.message


@pytest.mark.parametrize(
    "body",
    [
        "if not hasattr(self, 'wide'): self.wide = torch.exp(torch.log(self.scale * self.scale) / 2)",
        "self.room = getattr(self, 'room', None)\n"
        "        if self.room is None: self.room = torch.empty_like(x)\n"
        "        self.room.copy_(x); x = self.room",
        "x = x if x.abs().max() > 40 else x.clone()",
    ],
    ids=["what is made once", "room that is kept", "a way of their own for large values"],
)
def test_right_answers_whose_calls_differ_are_verified(problem: Problem, body: str) -> None:
    evaluation = judged(problem, body)
    assert evaluation.status is Status.VERIFIED, evaluation.findings


SIZED = """if x.shape[0] > 3000000:
            REST"""
LARGE = REFERENCE.replace("rows = 16", "rows = 4000000")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    path = tmp_path_factory.mktemp("reference") / "large.py"
    path.write_text(LARGE)
    return problems.load(str(path))


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("ext.tanh_scale(x, self.scale); return torch.tanh(x) * self.scale", "torch's mul, tanh runs"),
        ("return torch.zeros_like(x)", "no kernel of this file is launched"),
        ("raise ValueError('too many rows')", "too many rows"),
    ],
)
def test_what_stands_in_for_kernels_at_the_real_sizes_is_refused(
    large: Problem, rest: str, words: str
) -> None:
    assert problems.shrink(large) is not None
    evaluation = judged(large, SIZED.replace("REST", rest), "quick")
    assert evaluation.headline is not None
    assert (evaluation.status, evaluation.headline.kind) == (
        Status.REJECTED, "real-sizes-behave-differently",
    )  # fmt: skip
    assert words in evaluation.headline.message


def test_making_room_and_packing_parameters_at_the_real_sizes_is_no_stand_in(large: Problem) -> None:
    rest = "self.packed = torch.log(torch.exp(self.scale)); x = torch.cat([x[:1], x[1:]])"
    evaluation = judged(large, SIZED.replace("REST", rest), "quick")
    assert evaluation.status is Status.VERIFIED, evaluation.findings
