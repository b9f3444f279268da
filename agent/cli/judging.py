"""What `run`, `eval` and `replay` share: options, the executor made ready, a verdict in words."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from agent import sandbox
from agent.cli import console
from agent.cli.verdicts import STYLES, place, times
from agent.config import Settings
from agent.errors import EnvironmentFault, UsageError
from agent.records import Evaluation, Problem, Request

if TYPE_CHECKING:
    from agent.executors import LocalExecutor

Provider = Annotated[str | None, typer.Option(help="openai_compat, catalogue or replay:RUN.")]
Executor = Annotated[str | None, typer.Option(help="auto, cuda or emulator.", show_default="auto")]
Timeout = Annotated[
    float | None,
    typer.Option("--candidate-timeout", help="Seconds each step of a candidate may take", show_default="120"),
]
Sandbox = Annotated[
    str | None,
    typer.Option(
        "--sandbox", help="auto, or require: stop where candidates cannot be isolated.", show_default="auto"
    ),
]
LibraryOps = Annotated[
    str | None,
    typer.Option(
        "--library-ops",
        help="Torch operators that may stay: gemm-conv, none or any.",
        show_default="gemm-conv",
    ),
]
Unchecked = Annotated[
    bool, typer.Option("--unchecked", help="Run without the emulator's sanitizer; the scope then says so.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer draws; the verdict says what was skipped.")]
AdmitAnyway = Annotated[
    bool, typer.Option("--admit-anyway", help="Judge even where wrong answers would pass; recorded.")
]
Backward = Annotated[
    bool, typer.Option("--backward", help="Judge the gradients of inputs and parameters too.")
]
CompileSafe = Annotated[
    bool, typer.Option("--compile-safe", help="Judge that torch.compile traces it without a graph break.")
]
MAX_FINDINGS = 4


def arch(settings: Settings) -> str | None:
    """Of the GPU for candidates, as `90a`; None on the emulator. Raises EnvironmentFault without it."""
    from agent.executors import choose

    return present_arch() if choose(settings.executor) == "cuda" else None


def present_arch() -> str:
    """Of the GPU here, as `90a`. Raises EnvironmentFault where none answers."""
    import torch

    from agent.kernels import building

    if not torch.cuda.is_available():
        raise EnvironmentFault(
            "no NVIDIA GPU answers here; a build for another machine says what for, as --arch 90a"
        )
    return building.architecture(torch.cuda.get_device_capability())


def executor(
    settings: Settings, problem: Problem, live: console.Live, *, quick: bool = False,
    requests: tuple[Request, ...] = (),
) -> "LocalExecutor":  # fmt: skip
    """The executor that the settings ask for, tools prepared.

    Raises EnvironmentFault without them, UsageError for checks switched off where there are none.
    """
    from agent.emulator import toolchain
    from agent.executors import LocalExecutor, choose

    name = choose(settings.executor)
    if settings.unchecked and name != "emulator":
        raise UsageError("--unchecked: only the emulator has these checks; leave it out here")
    _isolate(settings)
    if name == "emulator":
        toolchain.prepare(settings.cache_dir, progress=live.update)
    elif settings.library_ops != "gemm-conv":
        console.warn(
            "--library-ops: only the emulator shows whose kernels compute the result; not checked here"
        )
    made = LocalExecutor(
        name,
        candidate_timeout_s=settings.candidate_timeout,
        cache_dir=settings.cache_dir,
        floor_ms=floor_ms(problem, settings),
        announce=live.update,
    )
    made.library_ops = settings.library_ops
    made.protocol = "quick" if quick else "full"
    made.requests = requests
    made.unchecked = settings.unchecked
    return made


def _isolate(settings: Settings) -> None:
    """Raises EnvironmentFault where an isolation is required that this machine does not give."""
    if sandbox.strongest().name != "process":
        return
    if settings.sandbox == "require":
        raise EnvironmentFault(f"--sandbox require: candidates cannot be isolated here; {sandbox.MEND}")
    console.warn(
        "NOT ISOLATED: candidates run as plain processes here, with your files and as your user; "
        f"{sandbox.MEND}, or stop at this with --sandbox require"
    )


def requests(require: str, *, backward: bool, compile_safe: bool) -> tuple[Request, ...]:
    """What is judged beside the protocol, by flags and by names among the user's requirements."""
    from agent import prompts

    named = prompts.requested(require) if require else ()
    flags: tuple[tuple[Request, bool], ...] = (("backward", backward), ("compile-safe", compile_safe))
    return tuple(dict.fromkeys([*(name for name, given in flags if given), *named]))


def admit(judge: "LocalExecutor", problem: Problem, anyway: bool) -> None:
    """Probes the problem and says what came of it. Raises ProblemError where it may not be judged."""
    found = judge.admit(problem, anyway)
    rate = found.kill_rate
    words = [found.note or "not probed"] if rate is None else [
        f"{found.killed} of {found.tried - len(found.equivalent)} wrong answers refused ({rate:.0%})"
    ]  # fmt: skip
    words += [f"{len(found.equivalent)} more do the same as the reference"] if found.equivalent else []
    words += [f"tightened by {', '.join(found.tightened)} inputs"] if found.tightened else []
    console.say(f"admission: {'; '.join(words)}")
    if found.survivors:
        console.warn(f"admitted anyway, though these pass: {'; '.join(found.survivors)}")


def tracing(address: str, settings: Settings) -> Problem:
    """The problem at an address, traced with visible progress."""
    from agent import problems

    with console.live(f"tracing {address}"):
        return problems.load(address, kernelbench_root=settings.kernelbench_root)


def floor_ms(problem: Problem, settings: Settings) -> float | None:
    """The roofline floor on the GPU that is configured; None for one the table does not know."""
    from agent.problems import roofline

    gpu = roofline.find(settings.gpu)
    return roofline.floor_ms(problem.trace, gpu) if gpu else None


def verdict(evaluation: Evaluation) -> Text:
    """Status with its scope, the findings with their places, the numbers."""
    text = Text()
    text.append(str(evaluation.status), style=STYLES.get(evaluation.status, "red"))
    text.append(f" on {console.line(str(evaluation.scope))}\n")
    for finding in evaluation.findings[:MAX_FINDINGS]:
        where = f" ({place(finding.location)})" if finding.location else ""
        text.append(f"  {finding.kind}{where}: {console.line(finding.message)}\n")
    if len(evaluation.findings) > MAX_FINDINGS:
        text.append(f"  and {len(evaluation.findings) - MAX_FINDINGS} more; --json has them all\n")
    known = evaluation.correctness
    if known:
        text.append(f"  {known.draws} secret draws, ")
        if known.error_budget_ratio is not None:
            text.append(
                f"largest error {known.max_abs_err:.3g}, {known.error_budget_ratio:.0%} of the budget\n"
            )
    if evaluation.envelope:
        text.append(f"  {console.line(str(evaluation.envelope))}\n")
    if evaluation.measurement:
        text.append(f"  {times(evaluation.measurement)}\n")
    text.rstrip()
    return text
