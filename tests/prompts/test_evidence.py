"""What a prompt says of the GPU, of torch's operators, and of what was measured, and how long that may be."""

import pytest
from verdicts import verified

from agent import figures, prompts, resources, sections
from agent.problems import gpu_cards, roofline
from agent.prompts import Situation
from agent.records import Finding, KernelResources, KernelTime, LibraryOps, Problem, Profile, Trace

LISTED = ("H100", "H200", "A100", "L40S", "RTX 4090", "B200")


@pytest.fixture
def problem() -> Problem:
    trace = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=1)
    return Problem(name="nothing", source="class Model: ...", trace=trace)


def system(problem: Problem, gpu: str = "H200", library_ops: LibraryOps = "gemm-conv") -> str:
    return prompts.render(problem, Situation(gpu=gpu, library_ops=library_ops)).messages[0].content


def section(text: str) -> str:
    return text.partition("## The GPU\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", roofline.GPUS)
def test_each_gpu_has_a_card_that_fits(problem: Problem, name: str) -> None:
    card = gpu_cards.card(name)
    assert card is not None
    text = section(system(problem, name))
    assert f"{card.multiprocessors} multiprocessors" in text
    assert f"compute capability {card.architecture.capability}." in text
    assert sections.tokens(text) <= sections.GPU


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("H100", ("132 multiprocessors", "at most 227 KB", "3350 GB/s", "50 MB", "wgmma")),
        ("H200", ("132 multiprocessors", "4800 GB/s", "a copy reaches 4260", "67 TFLOP/s FP32")),
        ("A100", ("108 multiprocessors", "at most 163 KB", "1555 GB/s", "40 MB", "156 TF32 and 312 BF16")),
        ("L40S", ("142 multiprocessors", "48 warps (1536 threads) in at most 24 blocks", "96 MB")),
        ("RTX 4090", ("128 multiprocessors", "at most 99 KB", "1008 GB/s", "72 MB")),
        ("B200", ("148 multiprocessors", "7700 GB/s", "tcgen05", "126 MB")),
        ("T4", ("40 multiprocessors", "32 warps (1024 threads)", "on them 65 FP16")),
    ],
)
def test_cards_say_what_the_data_sheets_say(problem: Problem, name: str, facts: tuple[str, ...]) -> None:
    text = section(system(problem, name))
    assert [fact for fact in facts if fact not in text] == []


def test_the_driver_s_name_finds_the_card(problem: Problem) -> None:
    assert "NVIDIA H100 80GB HBM3: Hopper" in system(problem, "NVIDIA H100 80GB HBM3")
    assert "114 multiprocessors" in system(problem, "NVIDIA H100 PCIe")


def test_nothing_is_said_of_an_unknown_gpu(problem: Problem) -> None:
    assert "## The GPU" not in system(problem, "Radeon VII")


def test_the_rule_on_library_operators_is_always_there(problem: Problem) -> None:
    rules: dict[LibraryOps, str] = {
        "gemm-conv": "Matrix products and convolutions of torch may stay",
        "none": "No operator of torch computes any part of the result",
        "any": "Operators of torch may stay where they are fast",
    }
    for setting, words in rules.items():
        text = system(problem, library_ops=setting)
        assert [other for other in rules.values() if other in text] == [words]
        assert "At least one kernel of yours does part of the work" in text


@pytest.mark.parametrize(
    ("gpu", "registers", "warps"),
    # By NVIDIA's occupancy calculator.
    [
        ("H100", 32, 64),
        ("H100", 40, 48),
        ("H100", 64, 32),
        ("H100", 128, 16),
        ("H100", 255, 8),
        ("L40S", 32, 48),
    ],
)
def test_warps_that_the_registers_allow(gpu: str, registers: int, warps: int) -> None:
    card = gpu_cards.card(gpu)
    assert card is not None
    assert card.warps(registers) == warps
    words = figures.resources(KernelResources(name="k", registers=registers), card)
    assert words == f"{registers} registers, registers for {warps} of {card.architecture.warps} warps"


def test_unknown_numbers_are_left_out() -> None:
    assert figures.resources(KernelResources(name="k"), gpu_cards.card("H100")) == "no compiler statistics"


def test_launches_are_listed_longest_first_within_their_budget() -> None:
    kernels = [
        KernelTime(name=f"kernel_{n}_{'x' * 300}", launches=2, ms=100.0 - n, own=n > 0) for n in range(90)
    ]
    text = figures.launches(Profile(kernels=tuple(kernels), streams=1))
    first, *rest = text.splitlines()
    assert first.startswith("100 ms (2%), 2 x kernel_0_xxx")
    assert first.endswith(" (not yours)")
    assert rest[-1] == f"({90 - len(rest)} shorter left out)"
    assert sections.tokens(text) <= sections.LAUNCHES + 10


def test_notes_come_with_their_figures_within_their_budget(problem: Problem) -> None:
    note = Finding(kind="slow", message="Half of the time is lost.", evidence="dram 41 %", severity="note")
    best = verified(1, 4.0)
    noted = best.model_copy(update={"evaluation": best.evaluation.model_copy(update={"findings": (note,)})})
    text = prompts.render(problem, Situation(gpu="H200", last=noted, best=noted)).messages[1].content
    assert "Half of the time is lost.\ndram 41 %" in text
    endless = figures.notes([note.model_copy(update={"evidence": f"{n}" * 400}) for n in range(90)])
    assert sections.tokens(endless) <= sections.NOTES + 20
    assert "more paragraphs left out for length" in endless


def test_all_questions_of_a_run_begin_alike(problem: Problem) -> None:
    """So that an endpoint can read the beginning, the rules and the problem, from its cache."""
    best = verified(1, 4.0)
    first = prompts.render(problem, Situation(gpu="H200"))
    later = prompts.render(problem, Situation(gpu="H200", last=best, best=best))
    assert (first.template, later.template) == ("generate", "optimise")
    assert first.messages[0] == later.messages[0]
    shared = first.messages[1].content.partition("## Your task")[0].rstrip()
    assert "## The reference" in shared
    assert later.messages[1].content.startswith(shared)


def test_every_partial_is_used() -> None:
    folder = resources.folder("prompts")
    texts = "".join(path.read_text() for path in folder.rglob("*.jinja2"))
    names = {path.name for path in (folder / "partials").glob("*.jinja2")} - {"skeleton.jinja2"}
    assert {name for name in names if f"partials/{name}" not in texts} == set()


def test_what_torch_compile_launches_are_the_times_to_beat(problem: Problem) -> None:
    names = (f"triton_red_fused_{number}" for number in range(40))
    rivals = tuple(
        KernelTime(name=name, launches=1, ms=0.5 / (1 + n), own=False) for n, name in enumerate(names)
    )
    attempt = verified(1, 1.0)
    measured = attempt.evaluation.measurement
    assert measured is not None
    told = {"measurement": measured.model_copy(update={"compile_kernels": rivals})}
    best = attempt.model_copy(update={"evaluation": attempt.evaluation.model_copy(update=told)})
    text = prompts.render(problem, Situation(gpu="H200", last=best, best=best)).messages[1].content
    shown = text.partition("the times to beat:\n")[2].partition("```python")[0]
    assert "0.5 ms (" in shown
    assert "1 x triton_red_fused_0\n" in shown
    assert "not yours" not in shown
    assert "shorter left out)" in shown
    assert sections.tokens(shown) <= sections.RIVALS + 20
    without = prompts.render(problem, Situation(gpu="H200", last=attempt, best=attempt)).messages[1].content
    assert "times to beat" not in without
