"""`agent kernels`: list, verify, time, build and promote kernels."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Annotated

import typer
from rich.text import Text

from agent import config
from agent.api import Checks, Judge
from agent.api.judge import architecture
from agent.cli import columns, console, judging, kernel_sweep
from agent.cli.kernel_builds import All, Names, build, chosen_names
from agent.cli.telling import telling
from agent.errors import EnvironmentFault
from agent.kernels import manifest, sources
from agent.records import SCHEMA_VERSION, Status

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
    """List shipped and promoted kernels with verdicts and speedups."""
    known = [manifest.load(name) for name in (*sources.NAMES, *sources.promoted())]
    if json:
        rows = [{"name": one.name, "stale": one.stale(_judge_version()), "manifest": one} for one in known]
        console.emit_json({"schema_version": SCHEMA_VERSION, "kernels": rows})
        return
    console.show_lines(
        columns.lines(
            ("kernel", "verified on", "speedup"), [_row(one) for one in known], console.stdout().width
        )
    )
    console.say("speedup: 95 % interval against the fastest torch variant at the reference's shape")


def _row(known: manifest.Manifest) -> tuple[str, str, str]:
    """Return the name, the executors that verified the kernel, and its speedup over torch."""
    # The first measurement is at the reference's shape.
    ratio = known.measured[0].ratio_ci if known.measured else None
    stale = known.stale(_judge_version())
    verdicts = ", ".join(
        v.executor + ("" if known.speaks_for_present(v) else " (earlier files)")
        for v in known.verified
        if v.status == Status.VERIFIED
    )
    words = f"{verdicts or 'nothing'}" + (f" ({stale})" if stale else "")
    return known.name, words, f"{ratio[0]:.2f} to {ratio[1]:.2f}" if ratio else "not measured"


def info(
    name: Annotated[str, typer.Argument(help="Kernel name as printed by `agent kernels list`.")],
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Show a kernel's operators, supported inputs, verdicts and times."""
    (known,) = (manifest.load(found) for found in chosen_names([name], False, sources.promoted()))
    if json:
        console.emit_json(
            {"schema_version": SCHEMA_VERSION, "stale": known.stale(_judge_version()), **dict(known)}
        )
        return
    said = [*known.operators, *known.envelope]
    for one in known.verified:
        of = "" if known.speaks_for_present(one) else ", of earlier files"
        said.append(f"{one.status} by judge {one.verifier_version} on {one.scope}, {one.date}{of}")
    stale = known.stale(_judge_version())
    said += [f"{stale}: agent kernels verify {known.name}"] if stale else []
    for times in known.measured:
        case = " ".join((str(list(times.shape)), times.dtype, times.setting)).rstrip()
        said.append(f"{case}: {times.candidate_ms.p50:.4g} ms on {times.gpu}")
    width = console.stdout().width
    lines = [line for words in said for line in columns.folded(f"  {words}", width, "      ")]
    console.show(Text(f"{known.name}, version {known.version}, {known.source}", style="bold"))
    console.show(Text("\n".join(lines)))


def verify(
    names: Names = None,
    every: All = False,
    executor: judging.Executor = None,
    quick: judging.Quick = False,
    keep: Annotated[
        bool, typer.Option("--write/--no-write", help="Write the verdicts to kernel.json.")
    ] = True,
    arch: Annotated[
        str | None,
        typer.Option(help="On the emulator: judge the path for this GPU, such as 90a, without writing."),
    ] = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Judge shipped and promoted kernels again as ModelNew files.

    Exits 1 if a kernel is not verified.
    """
    from agent.kernels import auditing

    chosen = chosen_names(names, every, sources.promoted())
    settings = config.load({"executor": executor}, offline=True).settings
    rows, held = [], True
    for name in chosen:
        before = manifest.load(name).stale(_judge_version())
        with telling(f"{name}: preparing") as told:
            library_ops = "none" if name in sources.NAMES else settings.library_ops
            judge = Judge(
                auditing.reference(name),
                checks=Checks(quick=quick, timing=False),
                progress=told,
                settings=settings.model_copy(update={"library_ops": library_ops}),
            )
            path = architecture(settings) or arch
            known, found = auditing.audited(name, judge.problem, judge.executor, _judge_version(), path)
        held = held and found.status is Status.VERIFIED
        if keep and not quick and not arch:
            manifest.save(known)
        rows.append({"name": name, "was": before or "up to date", "evaluation": found})
        if not json:
            console.show(f"{name} (before: {before or 'up to date'})")
            console.show(judging.verdict(found))
            console.show(_reach(found.scope.executor, name, path))
    if json:
        console.emit_json({"schema_version": SCHEMA_VERSION, "judge": _judge_version(), "kernels": rows})
    raise typer.Exit(0 if held else 1)


def bench(
    names: Names = None,
    every: All = False,
    keep: Annotated[bool, typer.Option("--write/--no-write", help="Write the times to kernel.json.")] = True,
    sweep: kernel_sweep.Wanted = False,
    to: kernel_sweep.To = kernel_sweep.FOLDER,
    seconds: kernel_sweep.Seconds = None,
    below: kernel_sweep.Below = None,
    max_autotune: kernel_sweep.MaxAutotune = False,
    workers: kernel_sweep.Workers = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Time kernels against torch. Needs a GPU, which is locked meanwhile."""
    chosen = chosen_names(names, every)
    from agent.kernels import benching, cases

    here = benching.machine(_commit())
    if sweep:
        choice = kernel_sweep.Choice(chosen, to, seconds, below, max_autotune, workers)
        kernel_sweep.run(choice, here, _turn, json)
        return
    rows = []
    for name in chosen:
        found = []
        for case in cases.list_cases(name):
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
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run, or RUN:K for attempt K of a run.")],
    runs_dir: console.RunsDir = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Verify a run's best kernel again and add it to the shipped ones.

    Needs a GPU.
    """
    from agent import executors
    from agent.cli.promotion import attempt_of
    from agent.kernels import promoting

    obstacle = executors.cuda_obstacle()
    if obstacle is not None:
        raise EnvironmentFault(f"promotion has to verify the kernel on a GPU: {obstacle}")
    settings = config.load({"executor": "cuda", "runs_dir": runs_dir}, offline=True).settings
    opened, attempt, problem = attempt_of(run, settings.runs_dir)
    with telling() as told:
        again = Judge(problem, progress=told, settings=settings).evaluate(attempt.candidate)
    name = promoting.promote(problem, attempt, again, opened, _judge_version())
    folder = str(sources.ROOT / name)
    if json:
        kept = {"name": name, "path": folder, "evaluation": again}
        console.emit_json({"schema_version": SCHEMA_VERSION, **kept})
    else:
        console.show(judging.verdict(again))
        console.show(f"promoted as {name} in {folder}")


def _judge_version() -> str:
    from agent.harness.judge import verifier

    return verifier.version()


def _reach(executor: str, name: str, path: str | None) -> str:
    if executor == "emulator":
        own = path is not None and sources.OWN_PATHS.get(name) == path
        return f"  judged the {f'path for sm_{path}' if own else 'portable code path'} on the CPU"
    return "  judged the ModelNew file; `agent kernels bench` times the library operators"


def _turn(live: console.Live) -> AbstractContextManager[None]:
    """Take the exclusive GPU lock that evaluations use. Raises EnvironmentFault if it cannot be had."""
    from agent.harness.backends import gpu_lock

    settings = config.load({}, offline=True).settings
    return gpu_lock.of_gpu(settings.cache_dir, config.child_environment(), live.update).exclusive()


def _commit() -> str:
    """Return the commit of the checkout that this runs from, or `unknown`."""
    import subprocess

    command = ["git", "-C", str(sources.ROOT), "rev-parse", "HEAD"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return answer.stdout.strip()


app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    epilog=f"Example: {EXAMPLES['list']}", help="List, verify, time and build the shipped kernels.",
)  # fmt: skip
_COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (
    ("list", list_kernels), ("info", info), ("verify", verify), ("bench", bench), ("build", build),
    ("promote", promote),
)  # fmt: skip
for _name, _function in _COMMANDS:
    app.command(_name, epilog=f"Example: {EXAMPLES[_name]}")(_function)
