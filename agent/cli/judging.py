"""Options shared by the commands that judge, and the text of a verdict."""

from typing import Annotated

import typer
from rich.text import Text

from agent.cli import columns, console
from agent.cli.verdicts import STYLES, place, times
from agent.records import Evaluation

Provider = Annotated[
    str | None,
    typer.Option(
        help="Source of the answers: openai_compat, compose, catalogue, replay:RUN, command:CMD, "
        "mailbox:DIR or file:PATH."
    ),
]
Executor = Annotated[
    str | None,
    typer.Option(
        help="Backend that judges candidates: auto, cuda, emulator or the URL of a judge service.",
        show_default="auto",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--candidate-timeout",
        help="Maximum time in seconds for one step of a candidate; a fast reference lowers it.",
        show_default="120",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="ADDRESS", help="Judge on a Ray cluster: HOST:PORT of its head node, or auto."
    ),
]
Sandbox = Annotated[
    str | None,
    typer.Option(
        "--sandbox", help="If candidates cannot be isolated: auto warns, require exits.", show_default="auto"
    ),
]
LibraryOps = Annotated[
    str | None,
    typer.Option(
        "--library-ops",
        help="Torch operators that a candidate may still call: gemm-conv, none or any.",
        show_default="gemm-conv",
    ),
]
Baselines = Annotated[
    str | None,
    typer.Option(
        "--baselines",
        help="Further baselines on a GPU: max-autotune, graphs (each baseline as a CUDA graph) or both.",
        show_default="eager, torch.compile",
    ),
]
Unchecked = Annotated[
    bool, typer.Option("--unchecked", help="Turn off the emulator's sanitizer; the verdict says so.")
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Use fewer input draws; the verdict lists the skipped checks.")
]
AdmitAnyway = Annotated[
    bool,
    typer.Option(
        "--admit-anyway", help="Judge a problem even if it lets wrong answers pass; the verdict records it."
    ),
]
Backward = Annotated[
    bool, typer.Option("--backward", help="Also judge the gradients of inputs and parameters.")
]
CompileSafe = Annotated[
    bool,
    typer.Option(
        "--compile-safe", help="Also require that torch.compile traces the candidate without a graph break."
    ),
]
MAX_FINDINGS = 4


def verdict(evaluation: Evaluation) -> Text:
    """Return status, scope, findings with their places, and figures, wrapped to the terminal's width."""
    lines = [f"{evaluation.status} on {console.line(str(evaluation.scope))}"]
    for finding in evaluation.findings[:MAX_FINDINGS]:
        where = f" ({place(finding.location)})" if finding.location else ""
        lines.append(f"  {finding.kind}{where}: {console.line(finding.message)}")
    if len(evaluation.findings) > MAX_FINDINGS:
        lines.append(f"  and {len(evaluation.findings) - MAX_FINDINGS} more; --json has them all")
    known = evaluation.correctness
    if known:
        errors = ""
        if known.error_budget_ratio is not None:
            errors = f", largest error {known.max_abs_err:.3g}, {known.error_budget_ratio:.0%} of the budget"
        lines.append(f"  {known.draws} secret draws{errors}")
    if evaluation.envelope:
        lines.append(f"  {console.line(str(evaluation.envelope))}")
    if evaluation.measurement:
        lines.append(f"  {times(evaluation.measurement)}")
    width = console.stdout().width
    text = Text("\n".join(folded for line in lines for folded in columns.folded(line, width, "    ")))
    text.stylize(STYLES.get(evaluation.status, "red"), 0, len(evaluation.status))
    return text
