"""`agent bench SUITE`: runs on many problems, and `report` and `compare` for their results."""

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from agent import bench as benches
from agent import config
from agent.api import Checks
from agent.bench import candidates, work
from agent.bench.pool import Pool
from agent.bench.report import Report, report
from agent.cli import console, judging, serving, settings_options
from agent.cli.telling import telling
from agent.errors import BudgetExceeded, EnvironmentFault, Interrupted, UsageError

PROCESSORS_EACH = 4
"""Processors per concurrent run, which builds, judges and waits by turns."""
RUNS_PER_GPU = 4
RUNS_PER_PROCESSOR = 4
"""Concurrent runs per processor if a cluster judges them and this machine only asks models."""
CLUSTER = "cluster"
"""Subfolder of a bench that stores the answers of a cluster's judges."""
TOKEN = "AGENT_SERVICE_TOKEN"
EXAMPLES = {
    "": "agent bench references --provider catalogue --executor emulator",
    "run": "agent bench run kernelbench:1 --every 5",
    "report": "agent bench report bench-20261123 --format html --out report.html",
    "compare": "agent bench compare bench-20261122 bench-20261123",
}
Flags = dict[str, object]


class Format(StrEnum):
    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"
    CSV = "csv"


Suite = Annotated[
    str | None,
    typer.Argument(
        metavar="SUITE",
        help="kernelbench:LEVEL or FIRST-LAST, references (the shipped ones), a folder, or a .toml list.",
    ),
]
Which = Annotated[str, typer.Argument(metavar="BENCH", help="Path, id or a unique prefix of an id.")]
Samples = Annotated[int, typer.Option(min=1, help="Number of independent runs per problem.")]
Every = Annotated[
    int, typer.Option(metavar="N", help="Use only every N-th problem of each level or subfolder.")
]
Given = Annotated[
    Path | None,
    typer.Option("--candidates", metavar="DIR", help="Judge the answers in this folder instead of asking."),
]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="Maximum concurrent runs.", show_default="by processors and GPUs")
]
Rounds = Annotated[int | None, typer.Option(help="Maximum number of rounds per run.", show_default="6")]
Resume = Annotated[
    str | None, typer.Option("--resume", metavar="BENCH", help="Continue a bench, with its stored settings.")
]
Out = Annotated[Path | None, typer.Option("--out", help="File to write instead of stdout.")]
Form = Annotated[Format, typer.Option("--format", help="Format of the report.")]


@settings_options.taking("search", "width", "parallel", "good_enough", after="rounds")
@settings_options.taking("max_tokens", "max_cost", "max_time", after="rounds")
@settings_options.taking("candidate_timeout", "library_ops", "baselines", "gpu", after="rounds")
@settings_options.taking("model", "base_url", "api", "reasoning_effort", after="provider")
def run(
    suite: Suite = None,
    samples: Samples = 1,
    every: Every = 1,
    candidates: Given = None,
    provider: judging.Provider = None,
    executor: judging.Executor = None,
    isolation: judging.Sandbox = None,
    rounds: Rounds = None,
    quick: judging.Quick = False,
    admit_anyway: judging.AdmitAnyway = False,
    jobs: Jobs = None,
    cluster: judging.Cluster = None,
    resume: Resume = None,
    runs_dir: console.RunsDir = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
    *,
    given: Flags,
) -> None:
    """Run every problem of a suite.

    --max-tokens, --max-cost and --max-time limit all runs together. --resume continues an interrupted bench;
    nothing is asked or judged twice.
    """
    if (suite is None) == (resume is None):
        raise UsageError("give either a SUITE or --resume BENCH")
    if resume is not None:
        settings = config.load({"runs_dir": runs_dir}).settings
        bench = benches.open_bench(resume, settings.runs_dir)
    else:
        flags = given | {
            "provider": provider, "executor": executor, "sandbox": isolation, "rounds": rounds,
        }  # fmt: skip
        checks = Checks(quick=quick, admit_anyway=admit_anyway)
        bench = _begun(str(suite), flags, checks, samples, every, candidates, runs_dir)
    raise typer.Exit(_on_cluster(bench, jobs, cluster, json) if cluster else _carried(bench, jobs, json))


def _begun(
    suite: str, flags: Flags, checks: Checks, samples: int, every: int, folder: Path | None,
    runs_dir: Path | None,
) -> benches.Bench:  # fmt: skip
    flags = {name: value for name, value in flags.items() if value is not None}
    limits = {name: flags.pop(name, None) for name in ("max_tokens", "max_cost", "max_time")}
    settings = config.load(flags | {"runs_dir": runs_dir}).settings
    cases = benches.cases(suite, settings.kernelbench_root, every=every)
    if folder is not None:
        if provider := flags.get("provider"):
            raise UsageError(f"--candidates judges what is given; leave out --provider {provider}")
        candidates.found(folder, cases, samples)
    return benches.create(
        settings.runs_dir,
        benches.Asked.model_validate(
            {
                "suite": suite, "cases": cases, "samples": samples, "flags": flags,
                "candidates": str(folder.resolve()) if folder else None,
                "limits": {
                    "tokens": limits["max_tokens"], "cost_usd": limits["max_cost"],
                    "seconds": limits["max_time"],
                },
                "checks": checks.model_dump(exclude_defaults=True),
            }
        ),
    )  # fmt: skip


def _carried(bench: benches.Bench, jobs: int | None, json: bool) -> int:
    asked = bench.info.asked
    gpus = _gpus(str(asked.flags.get("executor", config.load({}, offline=True).settings.executor)))
    jobs = jobs or _jobs(gpus)
    with telling("preparing") as told:
        told.say(_begins(bench, jobs))
        try:
            with Pool(jobs, gpus) as pool:
                work.carry(bench, pool, jobs, told)
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; go on with: agent bench --resume {bench.id}") from None
        except BudgetExceeded as error:
            told.warn(str(error))
            return _summed(bench, json, BudgetExceeded.exit_code)
    return _summed(bench, json, 0)


def _on_cluster(bench: benches.Bench, jobs: int | None, address: str, json: bool) -> int:
    """Carry out a bench as `_carried` does, but judge on a cluster.

    Models are asked from this machine, by default with as many processes as the cluster has judges, up to
    RUNS_PER_PROCESSOR per processor.
    """
    with serving.needs_extra("--cluster", "ray"):
        from agent.doors.cluster import running
        from agent.doors.cluster.rays import Rays
    asked = bench.info.asked
    settings = config.load(asked.flags, offline=True).settings
    with telling("asking the cluster for judges") as told:
        try:
            with running.service(Rays(address), settings, bench.path / CLUSTER, told) as found:
                jobs = jobs or min(found.slots, RUNS_PER_PROCESSOR * len(os.sched_getaffinity(0)))
                told.say(_begins(bench, jobs))
                with Pool(jobs, environment={TOKEN: found.token}) as pool:
                    work.carry(bench, pool, jobs, told, found.url)
        except KeyboardInterrupt:
            again = f"agent bench --resume {bench.id} --cluster {address}"
            raise Interrupted(f"interrupted; go on with: {again}") from None
        except BudgetExceeded as error:
            told.warn(str(error))
            return _summed(bench, json, BudgetExceeded.exit_code)
    return _summed(bench, json, 0)


def _begins(bench: benches.Bench, jobs: int) -> str:
    asked = bench.info.asked
    return f"bench {bench.id}: {len(asked.cases)} problems, {asked.samples} of each, {jobs} at a time"


def _summed(bench: benches.Bench, json: bool, code: int) -> int:
    """Print the figures and return `code`, or 3 if it is 0 and runs failed for reasons of the environment."""
    found = report(bench)
    failed = sum(one.ending == "failed" for one in found.outcomes)
    if json:
        console.emit_json(found.model_dump(mode="json"))
    else:
        _figures(found)
        console.show(Text(f"report      agent bench report {bench.id}"))
        if failed:
            console.warn(f"{failed} runs failed; try them again with: agent bench --resume {bench.id}")
    return code or (EnvironmentFault.exit_code if failed else 0)


def _figures(found: Report) -> None:
    from agent.bench import page

    whole = found.whole
    console.show(Text(f"{work.summary(found.outcomes)}, of {whole.samples} runs"))
    console.show(Text(f"solved      {page.percent(whole.solved)} of {whole.problems} problems"))
    for speeds in whole.speeds[:1]:
        console.show(Text(f"speed       {page.times(speeds.geometric_mean)} of the best baseline"))


def _gpus(executor: str) -> Sequence[str]:
    """Return the GPUs named by CUDA_VISIBLE_DEVICES, or all; none if the emulator judges."""
    from agent import executors

    if executor == "emulator" or not (found := executors.gpu_names()):
        return ()
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    return [part for part in shown.split(",") if part] if shown else [str(k) for k in range(len(found))]


def _jobs(gpus: Sequence[str]) -> int:
    processors = len(os.sched_getaffinity(0))
    most = max(1, processors // PROCESSORS_EACH)
    return min(most, RUNS_PER_GPU * len(gpus)) if gpus else most


def show_report(
    bench: Which, form: Form = Format.MARKDOWN, out: Out = None, runs_dir: console.RunsDir = None,
    json: console.Json = False, verbose: console.Verbose = False, quiet: console.Quiet = False,
) -> None:  # fmt: skip
    """Print the results of a bench, or write them to a file."""
    from agent.bench import page

    found = report(_opened(bench, runs_dir))
    match Format.JSON if json else form:
        case Format.MARKDOWN:
            text = page.markdown(found)
        case Format.HTML:
            text = page.html(found)
        case Format.CSV:
            text = page.table(found)
        case Format.JSON:
            text = found.model_dump_json(indent=1) + "\n"
    _put(text, out)


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="First bench, the baseline.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Second bench.")],
    out: Out = None, runs_dir: console.RunsDir = None, json: console.Json = False,
    verbose: console.Verbose = False, quiet: console.Quiet = False,
) -> None:  # fmt: skip
    """Report the differences of B from A, and which of them exceed noise."""
    from agent.bench import page
    from agent.bench.compare import compare as compared

    a, b = _opened(first, runs_dir), _opened(second, runs_dir)
    found = compared(report(a), report(b))
    if json:
        console.emit_json(found.model_dump(mode="json"))
        return
    _put(page.comparison(found, a.id, b.id), out)


def _opened(address: str, runs_dir: Path | None) -> benches.Bench:
    return benches.open_bench(address, config.load({"runs_dir": runs_dir}, offline=True).settings.runs_dir)


def _put(text: str, out: Path | None) -> None:
    from agent.store.disk import write_durably, writing

    if out is None:
        console.show(Text(console.plain(text.rstrip("\n"))))
        return
    with writing(out):
        write_durably(out, text.encode("utf-8", "replace"))
    console.say(f"wrote {out}")


class Suites(TyperGroup):
    """Group that treats `agent bench SUITE` as `agent bench run SUITE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        option = bool(args) and args[0].startswith("-") and args[0] not in ctx.help_option_names
        return super().parse_args(ctx, ["run", *args] if option else args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])


app = typer.Typer(
    cls=Suites, no_args_is_help=True, add_completion=False, rich_markup_mode=None,
    pretty_exceptions_enable=False, epilog=f"Example: {EXAMPLES['']}",
    help="Run a suite of problems, and report or compare results.",
)  # fmt: skip
app.command("run", epilog=f"Example: {EXAMPLES['run']}")(run)
app.command("report", epilog=f"Example: {EXAMPLES['report']}")(show_report)
app.command("compare", epilog=f"Example: {EXAMPLES['compare']}")(compare)
