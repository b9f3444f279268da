"""The corpus: correct kernels agree with PyTorch and raise no error, broken ones get their finding.

Every run takes each kernel once, checked and on two OS threads, and one stratum more: each broken kernel
whose fault the runtime sees without checks also runs unchecked, and so does every correct program with
barriers among blocks. Unchecked kernels run from NVIDIA's PTX where nvcc is there, checked ones from the
rewritten source; a sample (FROM_PTX_SAMPLE) also runs checked from the PTX alone, and has to agree in kind
and line. `--all-kernels` adds, for all of them, unchecked runs, checked ones from the PTX, one and four OS
threads, and other draws. The sample of right programs also runs with other fresh memory and in other orders,
with `--all-kernels` all of them.
"""

import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import corpus_run
import pytest
from corpus_run import CORPUS, Outcome

from agent.build import nvcc
from agent.build.toolchain import Toolchain
from agent.torch_shim import c_abi

BROKEN: dict[str, dict[str, dict[str, Any]]] = tomllib.loads((CORPUS / "broken.toml").read_text())
PROGRAMS = sorted(path.stem for path in (CORPUS / "correct").glob("*.py"))
# What ends a launch, refuses it, or shows in how threads meet, is seen without checked execution.
WITHOUT_CHECKS = frozenset(
    (
        "illegal-address", "divide-by-zero", "device-assert", "device-stack-overflow", "deadlock",
        "illegal-launch", "shared-memory-limit", "divergent-barrier", "barrier-after-exit",
        "warp-op-divergent", "warp-op-absent-lanes", "warp-mask-excludes-caller", "unchecked-launch-error",
    )
)  # fmt: skip
UNCHECKED_SAMPLE = ["language", "persistent"]
FROM_PTX_SAMPLE = {"correct": ["language"], "broken": ["shared_memory"]}
LIMIT_S = 240  # for one kernel or program; builds have their own
pytestmark = pytest.mark.timeout(900)  # the first test of each half builds it


@dataclass(frozen=True)
class Mode:
    """How a whole corpus is run."""

    checked: bool = True
    workers: int = 2
    seed: int = 0
    from_ptx: bool = False
    """From NVIDIA's PTX alone, in place of what a candidate gets."""
    memory: int = c_abi.MEMORY_ONES
    order: int = c_abi.ORDER_FORWARD

    def __str__(self) -> str:
        words = f"{'checked' if self.checked else 'unchecked'}-{self.workers}-{self.seed}"
        words += f"-{self.memory}-{self.order}" if self.memory or self.order else ""
        return f"{words}-ptx" if self.from_ptx else words


USUAL, UNCHECKED, FROM_PTX = Mode(), Mode(checked=False), Mode(from_ptx=True)
FURTHER = [Mode(workers=1), Mode(workers=4, seed=1), Mode(checked=False, workers=1, seed=2)]
# What a GPU leaves open; every right program has to be right under all of it.
OTHERWISE = [
    Mode(seed=3, memory=c_abi.MEMORY_HUGE_NEGATIVE, order=c_abi.ORDER_INTERLEAVED),
    Mode(checked=False, seed=4, memory=c_abi.MEMORY_HUGE, order=c_abi.ORDER_REVERSE),
    Mode(checked=False, workers=1, seed=5, memory=c_abi.MEMORY_USED, order=c_abi.ORDER_SHUFFLED),
    Mode(checked=False, workers=1, seed=6, memory=c_abi.MEMORY_LEAST, order=c_abi.ORDER_INTERLEAVED),
]


class Corpus:
    """Runs each half of the corpus once in each mode, when it is first asked for."""

    def __init__(self, toolchain: Toolchain, place: Path, everything: bool) -> None:
        self._toolchain, self._place, self._everything = toolchain, place, everything
        self._outcomes: dict[tuple[str, Mode], Outcome] = {}

    def outcome(self, half: str, mode: Mode) -> Outcome:
        if (half, mode) not in self._outcomes:
            place = self._place / f"{half}-{mode}"
            place.mkdir()
            task = {"correct": [], "broken": {}, **asdict(mode)}
            task[half] = self._programs(mode) if half == "correct" else self._sources(mode)
            self._outcomes[half, mode] = corpus_run.run(self._toolchain, place, task, LIMIT_S)
        return self._outcomes[half, mode]

    def _programs(self, mode: Mode) -> list[str]:
        names = PROGRAMS if self._everything else sample(mode)
        return [str(CORPUS / "correct" / f"{name}.py") for name in names]

    def _sources(self, mode: Mode) -> dict[str, list[str]]:
        seen = {source: [n for n in names if visible(source, n, mode)] for source, names in BROKEN.items()}
        taken = [source for source in seen if self._everything or not mode.from_ptx or in_sample(source)]
        return {str(CORPUS / "broken" / f"{source}.cu"): seen[source] for source in taken if seen[source]}

    def result(self, half: str, mode: Mode, name: str) -> dict[str, Any]:
        outcome = self.outcome(half, mode)
        assert name in outcome.results, outcome.failed or "it was not run"
        return outcome.results[name]


def sample(mode: Mode) -> list[str]:
    """The correct programs that every run takes in this mode."""
    if mode.from_ptx:
        return FROM_PTX_SAMPLE["correct"]
    return PROGRAMS if mode.checked and mode not in OTHERWISE else UNCHECKED_SAMPLE


def in_sample(source: str) -> bool:
    return source in FROM_PTX_SAMPLE["broken"]


def visible(source: str, name: str, mode: Mode) -> bool:
    return mode.checked or BROKEN[source][name]["finding"] in WITHOUT_CHECKS


@pytest.fixture(scope="module")
def corpus(
    toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Corpus:
    everything = bool(request.config.getoption("--all-kernels"))
    return Corpus(toolchain, tmp_path_factory.mktemp("corpus"), everything)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    further = FURTHER if metafunc.config.getoption("--all-kernels") else []
    everything = bool(further)
    if "program" in metafunc.fixturenames:
        cases = [
            (mode, name)
            for mode in (USUAL, UNCHECKED, FROM_PTX, *OTHERWISE, *further)
            for name in (PROGRAMS if everything else sample(mode))
        ]
        metafunc.parametrize(("mode", "program"), cases, ids=str)
    elif "kernel" in metafunc.fixturenames:
        found = [
            (mode, source, name)
            for mode in (USUAL, UNCHECKED, FROM_PTX, *further)
            for source, kernels in BROKEN.items()
            for name in kernels
            if visible(source, name, mode) and (everything or not mode.from_ptx or in_sample(source))
        ]
        metafunc.parametrize(("mode", "source", "kernel"), found, ids=str)


@pytest.fixture(autouse=True)
def _nvcc_where_needed(request: pytest.FixtureRequest) -> None:
    mode = getattr(request.node, "callspec", None) and request.node.callspec.params.get("mode")
    if mode and mode.from_ptx and nvcc.find() is None:
        pytest.skip(nvcc.MISSING)


def test_correct(corpus: Corpus, mode: Mode, program: str) -> None:
    result = corpus.result("correct", mode, program)
    assert {name: words for name, words in result["cases"].items() if words} == {}
    assert len(result["cases"]) >= 3
    assert result["launches"] >= len(result["cases"]) / 2
    assert [found for found in result["findings"] if found["severity"] == "error"] == []


def test_broken(corpus: Corpus, mode: Mode, source: str, kernel: str) -> None:
    expected = BROKEN[source][kernel]
    result = corpus.result("broken", mode, kernel)
    findings = result["findings"]
    severity = expected.get("severity", "error")
    line = marked_line(source, f"here: {kernel}") if expected.get("at_line", True) else None
    other = marked_line(source, f"there: {kernel}")
    words = [*expected["words"], *([f"line {other}"] if other else [])]
    if result.get("refused"):  # NVIDIA's compiler, where there is one, sees some faults first
        line, words = marked_line(source, f"refused: {kernel}"), expected.get("refused", ["built"])
    kind = expected["finding"]
    if mode.from_ptx:
        words = []
        if "from_ptx" in expected:
            kind, severity = expected["from_ptx"], "error"
        if not kind:  # not to be seen there, and the scope says so
            assert findings == []
            return
    matching = [
        found
        for found in findings
        if (found["kind"], found["severity"]) == (kind, severity)
        and (line is None or found["line"] == line)
        and all(word in found["message"] for word in words)
    ]
    assert matching, f"expected {kind} at line {line}, got {findings}"
    assert matching[0]["count"] >= 1
    nowhere = line is None or result.get("refused") or not expected.get("in_kernel", True)
    assert matching[0]["kernel"] or nowhere
    others = {found["kind"] for found in findings if found["severity"] == "error"}
    assert others <= {kind, *expected.get("also", [])}


def test_kernels_print(corpus: Corpus) -> None:
    assert "ramp of 250 elements\n" in corpus.outcome("correct", USUAL).printed


@pytest.mark.parametrize("half", ["correct", "broken"])
def test_the_process_lives_to_the_end(corpus: Corpus, half: str) -> None:
    assert corpus.outcome(half, USUAL).failed == ""


def marked_line(source: str, mark: str) -> int | None:
    """The line of the source that ends in the comment."""
    lines = (CORPUS / "broken" / f"{source}.cu").read_text().splitlines()
    return next((number for number, text in enumerate(lines, 1) if text.endswith(f"// {mark}")), None)
