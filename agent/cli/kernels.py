"""`agent kernels`: what is shipped, whether it still holds, how fast it is, and building it beforehand."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from agent import config
from agent.cli import console, judging
from agent.errors import EnvironmentFault, UsageError
from agent.kernels import manifest, sources
from agent.records import SCHEMA_VERSION, Status

Names = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="Kernels, as `list` names them.")
]
All = Annotated[bool, typer.Option("--all", help="Every shipped kernel.")]

EXAMPLES = {
    "list": "agent kernels list",
    "info": "agent kernels info group_norm",
    "verify": "agent kernels verify --all --executor emulator",
    "bench": "agent kernels bench group_norm",
    "build": "agent kernels build --all --arch 90a",
    "promote": "agent kernels promote 20261120-1",
}


def list_kernels(
    json: console.Json = False, verbose: console.Verbose = False, quiet: console.Quiet = False
) -> None:
    """List the shipped and the promoted kernels, and on what each was verified."""
    known = [manifest.load(name) for name in (*sources.NAMES, *sources.promoted())]
    if json:
        rows = [{"name": one.name, "stale": one.stale(_judge_version()), "manifest": one} for one in known]
        console.emit_json({"schema_version": SCHEMA_VERSION, "kernels": rows})
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("kernel", no_wrap=True)
    for column in ("verified on", "speed, torch's best = 1"):
        table.add_column(column)
    for one in known:
        # The first is the reference's shape.
        ratio = one.measured[0].ratio_ci if one.measured else None
        speed = f"{ratio[0]:.2f} to {ratio[1]:.2f}" if ratio else "not measured"
        stale = one.stale(_judge_version())
        verdicts = ", ".join(
            v.executor + ("" if one.speaks_for_present(v) else " (earlier files)")
            for v in one.verified
            if v.status == Status.VERIFIED
        )
        words = f"{verdicts or 'nothing'}" + (f" ({stale})" if stale else "")
        table.add_row(one.name, words, speed)
    console.show(table)


def info(
    name: Annotated[str, typer.Argument(help="A kernel, as `list` names it.")],
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Show one kernel: its operators, envelope, verdicts and times."""
    (known,) = (manifest.load(found) for found in _chosen([name], False, sources.promoted()))
    if json:
        console.emit_json(
            {"schema_version": SCHEMA_VERSION, "stale": known.stale(_judge_version()), **dict(known)}
        )
        return
    text = Text()
    text.append(f"{known.name}, version {known.version}, {known.source}\n", style="bold")
    for words in (*known.operators, *known.envelope):
        text.append(f"  {words}\n")
    for one in known.verified:
        of = "" if known.speaks_for_present(one) else ", of earlier files"
        text.append(f"  {one.status} by judge {one.verifier_version} on {one.scope}, {one.date}{of}\n")
    stale = known.stale(_judge_version())
    text.append(f"  {stale}: agent kernels verify {known.name}\n" if stale else "")
    for times in known.measured:
        text.append(
            f"  {list(times.shape)} {times.dtype} {times.setting}: {times.candidate_ms.p50:.4g} ms "
            f"on {times.gpu}\n"
        )
    text.rstrip()
    console.show(text)


def verify(
    names: Names = None,
    every: All = False,
    executor: judging.Executor = None,
    quick: judging.Quick = False,
    keep: Annotated[
        bool, typer.Option("--write/--no-write", help="Put the verdicts into kernel.json.")
    ] = True,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Judge kernels anew, as ModelNew files, promoted ones too; exits 1 when one does not hold."""
    from agent.kernels import auditing

    chosen = _chosen(names, every, sources.promoted())
    settings = config.load({"executor": executor}, offline=True).settings
    rows, held = [], True
    for name in chosen:
        before = manifest.load(name).stale(_judge_version())
        problem = judging.tracing(auditing.reference(name), settings)
        with console.live(f"{name}: preparing") as live:
            judge = judging.executor(settings, problem, live, quick=quick)
            judge.measure = False
            if name in sources.NAMES:
                judge.library_ops = "none"
            judging.admit(judge, problem, False)
            version, arch = _judge_version(), judging.arch(settings)
            known, found = auditing.audited(name, problem, judge, version, arch)
        held = held and found.status is Status.VERIFIED
        if keep and not quick:
            manifest.save(known)
        rows.append({"name": name, "was": before or "up to date", "evaluation": found})
        if not json:
            console.show(f"{name} (before: {before or 'up to date'})")
            console.show(judging.verdict(found))
            console.show(_reach(found.scope.executor))
    if json:
        console.emit_json({"schema_version": SCHEMA_VERSION, "judge": _judge_version(), "kernels": rows})
    raise typer.Exit(0 if held else 1)


def build(
    names: Names = None,
    every: All = False,
    arch: Annotated[str | None, typer.Option(help="As 90a; the present GPU's where there is one.")] = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Build kernels beforehand, into the cache that programs find them in."""
    from agent.kernels import building

    chosen = _chosen(names, every)
    target = arch or judging.present_arch()
    rows = []
    for name in chosen:
        with console.live(f"building {name} for sm_{target}"):
            path = building.library(name, target)
        report = building.report(path)
        rows.append({"path": str(path), **dict(report)})
        if not json:
            spills = sum(kernel.spill_bytes or 0 for kernel in report.kernels)
            most = max((kernel.registers or 0 for kernel in report.kernels), default=0)
            console.show(
                f"{name}: sm_{target}, {len(report.kernels)} kernels, at most {most} registers, {spills} "
                f"bytes spilled, built in {report.seconds:.1f} s"
            )
            for kernel in report.kernels if verbose else ():
                words = f"{kernel.registers} registers, {kernel.spill_bytes} spilled"
                console.show(f"  {words}: {console.line(kernel.name)}")
    if json:
        console.emit_json({"schema_version": SCHEMA_VERSION, "builds": rows})


def bench(
    names: Names = None,
    every: All = False,
    keep: Annotated[bool, typer.Option("--write/--no-write", help="Put the times into kernel.json.")] = True,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Time kernels on this GPU beside torch's, in one run, while no evaluation uses it. Needs a GPU."""
    chosen = _chosen(names, every)
    from agent.kernels import benching, cases

    here = benching.machine(_commit())
    rows = []
    for name in chosen:
        found = []
        for case in cases.of(name):
            what = f"timing {name} {list(case.shape)} {case.setting}"
            with console.live(what) as live, _turn(live):
                live.update(what)
                found.append(benching.measured(case, here))
            times = found[-1]
            low, high = times.ratio_ci or (float("nan"), float("nan"))
            if not json:
                console.show(
                    f"{name} {list(case.shape)} {case.dtype_name} {case.setting}: "
                    f"{times.candidate_ms.p50:.4g} ms, {low:.2f} to {high:.2f} times as fast as torch's best"
                )
        if keep:
            manifest.save(manifest.with_times(manifest.load(name), tuple(found)))
        rows += [{"name": name, **dict(times)} for times in found]
    if json:
        console.emit_json({"schema_version": SCHEMA_VERSION, "measured": rows})


def promote(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run, or RUN:K for attempt K of it.")],
    runs_dir: console.RunsDir = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Keep a run's best kernel beside the shipped ones, once a GPU has verified it anew. Needs a GPU."""
    from agent import executors
    from agent.cli.promotion import attempt_of
    from agent.kernels import promoting

    obstacle = executors.cuda_obstacle()
    if obstacle is not None:
        raise EnvironmentFault(f"promotion needs a verdict of a GPU: {obstacle}")
    settings = config.load({"executor": "cuda", "runs_dir": runs_dir}, offline=True).settings
    opened, attempt, problem = attempt_of(run, settings.runs_dir)
    with console.live("preparing") as live:
        judge = judging.executor(settings, problem, live)
        judging.admit(judge, problem, False)
        again = judge.evaluate(problem, attempt.candidate)
    name = promoting.promote(problem, attempt, again, opened, _judge_version())
    folder = str(sources.ROOT / name)
    if json:
        kept = {"name": name, "path": folder, "evaluation": again}
        console.emit_json({"schema_version": SCHEMA_VERSION, **kept})
    else:
        console.show(judging.verdict(again))
        console.show(f"kept as {name} in {folder}")


def _chosen(names: list[str] | None, every: bool, promoted: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Raises UsageError for no name and for one that is none; `promoted` are those that count beside ours."""
    known = (*sources.NAMES, *promoted)
    if every == bool(names):
        raise UsageError("name kernels, or give --all: there are " + ", ".join(known))
    for name in names or ():
        if name not in known:
            hint = (
                "is a file with a ModelNew and no operator" if name in sources.promoted() else "is no kernel"
            )
            raise UsageError(f"{name!r} {hint}: there are {', '.join(known)}")
    return tuple(names) if names else known


def _judge_version() -> str:
    from agent.harness import verifier

    return verifier.version()


def _reach(executor: str) -> str:
    if executor == "emulator":
        return (
            "  judged was the portable path, on the CPU; paths for one architecture run on such a GPU alone"
        )
    return "  judged was the file; the library's operators are timed and compared by `agent kernels bench`"


def _turn(live: console.Live) -> AbstractContextManager[None]:
    """On the GPU, as evaluations take it. Raises EnvironmentFault where it does not come."""
    from agent.harness import turn

    settings = config.load({}, offline=True).settings
    return turn.of_gpu(settings.cache_dir, config.child_environment(), live.update).held()


def _commit() -> str:
    """Of the checkout this runs from; `unknown` where it is none."""
    import subprocess

    command = ["git", "-C", str(sources.ROOT), "rev-parse", "HEAD"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return answer.stdout.strip()


app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    epilog=f"Example: {EXAMPLES['list']}",
)  # fmt: skip
_COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (
    ("list", list_kernels), ("info", info), ("verify", verify), ("bench", bench), ("build", build),
    ("promote", promote),
)  # fmt: skip
for _name, _function in _COMMANDS:
    app.command(_name, epilog=f"Example: {EXAMPLES[_name]}")(_function)
