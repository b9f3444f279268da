"""Judge candidates: `evaluate` for one, `Judge` for several on the same problem."""

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent import config, sandbox, store
from agent.api.checks import Checks
from agent.api.listening import Listener, Progress, listener
from agent.api.service import Remote, connect
from agent.config import Settings
from agent.errors import EnvironmentFault, UsageError
from agent.records import Admission, Candidate, Evaluation, Problem

if TYPE_CHECKING:
    from agent.executors import Elsewhere, JudgeOptions, LocalExecutor

Address = str | PathLike[str]
ExecutorName = Literal["auto", "cuda", "emulator"]


def load_problem(
    address: Address, *, kernelbench_root: Path | None = None, progress: Progress = None
) -> Problem:
    """Read and trace the reference at `address`: a path, a shipped name or `kernelbench:LEVEL/ID`.

    Tracing runs in a child process with a time limit. The trace is cached if it depends on nothing but the
    file's text. Raises ProblemError if the file is not a reference.

    >>> load_problem("level1/softmax").name
    'level1/softmax'
    """
    from agent.api import tracing

    told = listener(progress)
    told.update(f"tracing {address}")
    settings = config.load({}, offline=True).settings
    return tracing.load(
        str(address), kernelbench_root or settings.kernelbench_root, settings.cache_dir,
        lambda: told.update("waiting for another process that traces this reference"),
    )  # fmt: skip


def evaluate(
    problem: Address | Problem,
    candidate: Address | Candidate,
    *,
    executor: ExecutorName | None = None,
    checks: Checks | None = None,
    progress: Progress = None,
) -> Evaluation:
    """Judge one candidate: build it, verify it on secret inputs, time it on a GPU.

    `candidate` is a path to a file with `ModelNew`, attempt K of a run as `RUN:K`, or a Candidate. Settings
    that are not given come from the environment, `agent.toml` and the user configuration, as on the command
    line. The returned Evaluation holds the candidate's faults. Raises UsageError for an address that leads
    nowhere, ProblemError for a reference that cannot be judged, and EnvironmentFault if this machine cannot
    judge.

    >>> evaluate("level1/softmax", "answer.py", executor="emulator").status  # doctest: +SKIP
    <Status.VERIFIED: 'verified'>
    """
    judge = Judge(problem, executor=executor, checks=checks, progress=progress)
    return judge.evaluate(candidate)


class Judge:
    """Judges candidates for one problem and prepares its tools and the problem's admission once.

    The constructor raises as `evaluate` does.
    """

    def __init__(
        self,
        problem: Address | Problem,
        *,
        executor: ExecutorName | None = None,
        checks: Checks | None = None,
        progress: Progress = None,
        settings: Settings | None = None,
    ) -> None:
        """Prepare judging. `settings` replaces the environment and the configuration files."""
        self.checks = checks or Checks()
        self._listener = listener(progress)
        flags = {"executor": executor, **self.checks.flags()}
        self.settings = settings or config.load(flags, offline=True).settings
        begin_servers(self.settings)
        root = self.settings.kernelbench_root
        self.problem = (
            problem
            if isinstance(problem, Problem)
            else load_problem(problem, kernelbench_root=root, progress=self._listener)
        )
        self.executor = executor_for(self.settings, self.problem, self.checks, self._listener)
        self.admission = admitted(self.executor, self.problem, self.checks.admit_anyway, self._listener)

    def evaluate(self, candidate: Address | Candidate) -> Evaluation:
        """Return the verdict on one candidate. See the function `evaluate` of this module."""
        asked = self.candidate(candidate)
        found = self.executor.evaluate(self.problem, asked)
        return self.executor.confirm(self.problem, asked, found) if self.checks.confirm else found

    def candidate(self, candidate: Address | Candidate) -> Candidate:
        """Return the candidate at an address. Raises UsageError if there is none."""
        if isinstance(candidate, Candidate):
            return candidate
        source = candidate_source(str(candidate), self.settings.runs_dir)
        return Candidate(problem=self.problem.name, source=source, origin="file")


def candidate_source(address: str, runs_dir: Path) -> str:
    """Return the source of the candidate at an address. Raises UsageError if there is none."""
    path = Path(address)
    if not path.exists() and ":" in address:
        return store.resolve_candidate(address, runs_dir).source
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text; a candidate is a Python file with ModelNew") from None
    except OSError as error:
        raise UsageError(f"cannot read candidate {path}: {error.strerror}; give a file or RUN:K") from None


def executor_for(
    settings: Settings, problem: Problem, checks: Checks, told: Listener
) -> "LocalExecutor | Remote":
    """Return the executor that the settings select: a service's or this machine's.

    Raises as `local_executor` does.
    """
    if settings.service is None:
        return local_executor(settings, problem, checks, told)
    asked = checks.model_copy(
        update={
            "library_ops": settings.library_ops, "candidate_timeout_s": settings.candidate_timeout,
            "sanitizer": False if settings.unchecked else None,
        }
    )  # fmt: skip
    told.update(f"asking the service at {settings.service}")
    return Remote(connect(settings.service), asked)


def local_executor(settings: Settings, problem: Problem, checks: Checks, told: Listener) -> "LocalExecutor":
    """Return the executor of this machine with its tools prepared.

    Raises EnvironmentFault if the tools are missing. Raises UsageError if a check is switched off that this
    executor does not make.
    """
    from agent.emulator.compile import toolchain
    from agent.executors import LocalExecutor, choose

    name = choose(settings.executor)
    if settings.unchecked and name != "emulator":
        raise UsageError("--unchecked applies only to the emulator; leave it out")
    if not checks.confirm and (name == "emulator" or checks.quick):
        where = "on the emulator" if name == "emulator" else "with --quick"
        raise UsageError(f"--no-confirm: there is no second look {where}; leave it out")
    if checks.confirmed and (name == "emulator" or checks.quick or not checks.confirm):
        raise UsageError(
            "--require confirmed needs a second look: on a GPU, without --quick and --no-confirm"
        )
    require_isolation(settings, told)
    if name == "emulator":
        toolchain.prepare(settings.cache_dir, progress=told.update)
    options = judge_options(settings, problem, checks)
    return LocalExecutor(
        name, cache_dir=settings.cache_dir, options=options, announce=told.update, cancelled=told.cancelled
    )


def gpu_is_elsewhere(settings: Settings, *, may_wait: bool) -> bool:
    """Return True if the run needs a GPU that this machine lacks and may wait for one.

    Only a run with a mailbox may wait, since its folder can be moved to a machine with a GPU.
    """
    from agent.executors import cuda_obstacle

    by_mailbox = may_wait and (settings.provider or "").startswith("mailbox:")
    return by_mailbox and settings.executor == "cuda" and cuda_obstacle() is not None


def executor_elsewhere(settings: Settings, problem: Problem, checks: Checks, told: Listener) -> "Elsewhere":
    """Return the executor that leaves judging to a machine with a GPU."""
    from agent.executors import Elsewhere

    told.say("no GPU can be used here: prompts are written, answers taken in and judged where there is one")
    return Elsewhere(cache_dir=settings.cache_dir, options=judge_options(settings, problem, checks))


def judge_options(settings: Settings, problem: Problem, checks: Checks) -> "JudgeOptions":
    """Return the options that apply to every candidate of the problem."""
    from agent.executors import JudgeOptions

    return JudgeOptions(
        candidate_timeout_s=settings.candidate_timeout,
        library_ops=settings.library_ops,
        protocol=checks.protocol,
        requests=checks.requests,
        measure=checks.timing,
        baselines=settings.baselines,
        floor_ms=floor_ms(problem, settings),
        unchecked=settings.unchecked,
    )


def begin_servers(settings: Settings) -> None:
    """Start the servers that fork the judge's processes, in parallel with tracing."""
    from agent.executors import warm

    if settings.service is not None:
        return
    warm.begin_for(settings.executor, settings.cache_dir)


def require_isolation(settings: Settings, told: Listener) -> None:
    """Raise EnvironmentFault if isolation is required and missing; warn if it is only missing."""
    if sandbox.strongest().name != "process":
        return
    if settings.sandbox == "require":
        raise EnvironmentFault(f"--sandbox require: candidates cannot be isolated here; {sandbox.MEND}")
    told.warn(
        "NOT ISOLATED: candidates run as plain processes of your user and can read your files; "
        f"{sandbox.MEND}, or exit in this case with --sandbox require"
    )


def admitted(
    judge: "LocalExecutor | Elsewhere | Remote", problem: Problem, anyway: bool, told: Listener
) -> Admission:
    """Probe the problem and report the result. Raises ProblemError if it may not be judged."""
    found = judge.admit(problem, anyway)
    rate = found.kill_rate
    untried = "every answer tried does the same as the reference" if found.tried else "not probed"
    words = [found.note or untried] if rate is None else [
        f"{found.killed} of {found.tried - len(found.equivalent)} wrong answers refused ({rate:.0%})"
    ]  # fmt: skip
    words += [f"{len(found.equivalent)} more do the same as the reference"] if found.equivalent else []
    words += [f"tightened by {', '.join(found.tightened)} inputs"] if found.tightened else []
    words += [f"too fine for the output to show: {', '.join(found.unresolved)}"] if found.unresolved else []
    words += [f"parameters perturbed by {found.strength:g} of full strength"] if found.strength < 1 else []
    told.say(f"admission: {'; '.join(words)}")
    for why in found.trivial:
        told.warn(f"{problem.name} asks for no computation: {why}")
    if found.survivors:
        told.warn(f"admitted anyway, though these pass: {'; '.join(found.survivors)}")
    return found


def gpu_of(settings: Settings) -> str:
    """Return the target GPU: the one in the settings, else the one present, else `H200`."""
    from agent.executors.select import gpu_name

    if settings.service is not None and settings.gpu is None:
        return connect(settings.service).about().gpu or "H200"
    return settings.gpu or (gpu_name() if settings.executor != "emulator" else None) or "H200"


def floor_ms(problem: Problem, settings: Settings) -> float | None:
    """Return the roofline floor on the target GPU in milliseconds, or None for an unknown GPU."""
    from agent.problems import roofline

    gpu = roofline.find(gpu_of(settings))
    return roofline.floor_ms(problem.trace, gpu) if gpu else None


def architecture(settings: Settings) -> str | None:
    """Return the architecture of the GPU that candidates run on, such as `90a`; None on the emulator.

    Raises EnvironmentFault if there is no usable GPU.
    """
    from agent.executors import choose

    if settings.service is not None:
        return connect(settings.service).about().architecture
    return present_architecture() if choose(settings.executor) == "cuda" else None


def present_architecture() -> str:
    """Return the architecture of this machine's GPU, such as `90a`. Raises EnvironmentFault without a GPU."""
    from agent.build import present_gpu
    from agent.kernels import building

    capability = present_gpu.capability()
    if capability is None:
        raise EnvironmentFault(
            "no usable NVIDIA GPU found; to build for another machine, pass its --arch, such as 90a"
        )
    return building.architecture(capability)
