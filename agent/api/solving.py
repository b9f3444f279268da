"""Find a kernel: start or resume a run that searches for the best verified candidate."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from agent import config, sandbox, store
from agent.api import stored
from agent.api.checks import Checks, with_requirements
from agent.api.choices import Budget, Choices, Search
from agent.api.judge import (
    Address,
    ExecutorName,
    architecture,
    begin_servers,
    executor_elsewhere,
    executor_for,
    floor_ms,
    gpu_is_elsewhere,
    gpu_of,
    load_problem,
)
from agent.api.limits import ONE_ANSWER, bounded, budget_for, with_policy
from agent.api.listening import Listener, Progress, heard_by, listener
from agent.api.preparing import Behind, Preparation, PreparedExecutor, PreparedProvider, answers_at_once
from agent.api.runs import Run
from agent.api.service import Remote
from agent.config import Settings
from agent.errors import UsageError
from agent.providers import Several, Told, choose, for_run
from agent.records import Problem, Prompt

if TYPE_CHECKING:
    from agent.executors import Elsewhere, LocalExecutor
    from agent.loop import Terms
    from agent.providers.endpoint import StreamProgress


def solve(
    problem: Address,
    *,
    provider: str | None = None,
    model: str | None = None,
    base_url: str | None = None,
    executor: ExecutorName | None = None,
    checks: Checks | None = None,
    budget: Budget | None = None,
    search: Search | None = None,
    require: str = "",
    autofix: bool = True,
    in_order: bool = False,
    from_composed: bool = False,
    runs_dir: Path | None = None,
    progress: Progress = None,
) -> Run:
    """Ask for kernels, judge them, feed back their faults, and keep the best verified one.

    `provider`: `openai_compat`, `compose`, `catalogue`, `replay:RUN`, `command:CMD`, `mailbox:DIR` or
    `file:PATH`. None selects the endpoint if one is configured, else shipped and composed kernels.
    `require`: your own requirements, one per line, or `@FILE`. `autofix`: apply a fix without asking the
    model where a fault has exactly one. `in_order`: with `replay:RUN`, replay the stored answers in order and
    ignore the prompts. `search`: the search policy, and which kernels get a second look. `from_composed`:
    start from a composed kernel and improve it.

    The process is made non-dumpable, since it holds the endpoint's key. Returns the run even if nothing was
    verified (`run.best` is None). Raises UsageError, ProblemError and EnvironmentFault as `evaluate` does,
    EndpointError if the endpoint failed for good and nothing is verified, and Interrupted on Ctrl-C.
    Everything received until then is on disk, and `resume` continues from it.

    >>> run = solve("level1/softmax", provider="catalogue", executor="emulator")  # doctest: +SKIP
    >>> run.best_file  # doctest: +SKIP
    PosixPath('runs/20261122-101500-softmax-1a2b/best.py')
    """
    checks, told = checks or Checks(), listener(progress)
    budget, search = budget or Budget(), search or Search()
    flags: dict[str, object] = {
        "provider": provider, "model": model, "base_url": base_url, "executor": executor,
        "runs_dir": runs_dir, **budget.model_dump(), **search.model_dump(), **checks.flags(),
    }  # fmt: skip
    settings = config.load(flags).settings
    choices = Choices(require=require, autofix=autofix, in_order=in_order, from_composed=from_composed)
    return begin(problem, settings, checks, choices, told)


def begin(problem: Address, settings: Settings, checks: Checks, choices: "Choices", told: Listener) -> Run:
    """Run `solve` with settings that are already merged. Raises as `solve` does."""
    from agent import prompts

    sandbox.hide()
    wishes = prompts.lines(choices.require) if choices.require else ()
    for wish in map(prompts.requirement, wishes):
        if not wish.checked:
            told.warn(f"passed on to the model, not checked: {wish.text}")
    begin_servers(settings)
    traced = load_problem(problem, kernelbench_root=settings.kernelbench_root, progress=told)
    choices = choices.model_copy(update={"require": "\n".join(wishes)})
    return _Work(settings, traced, with_requirements(checks, choices.require), choices, told).begin(
        str(problem)
    )


def resume(
    run: str, *, flags: dict[str, object] | None = None, checks: Checks | None = None,
    choices: "Choices | None" = None, progress: Progress = None,
) -> Run:  # fmt: skip
    """Resume a run that was interrupted, killed or ended, with its original settings.

    `flags` override those settings by name, such as `{"rounds": 8}`. No received answer is requested again,
    and no verdict is computed again. Raises as `solve` does.
    """
    sandbox.hide()
    told, flags, choices = listener(progress), flags or {}, choices or Choices()
    given = {name: value for name, value in flags.items() if value is not None}
    folder = config.load({"runs_dir": flags.get("runs_dir")}, offline=True).settings.runs_dir
    found = store.open_run(run, folder)
    asked = found.info.settings
    before = stored.settings(asked)
    if asked.provider.startswith("command:") and "provider" not in given:
        before["provider"] = _own_command(asked.provider, found.id)
    checks = checks or Checks()
    if (given.get("confirm") if checks.confirm else "none") not in (None, before["confirm"]):
        raise UsageError(
            f"run {found.id} was begun with --confirm {before['confirm']}, and going on keeps that; "
            "leave out --confirm"
        )
    settings = config.load(before | given).settings
    log = found.read()
    if log.started is None:
        raise UsageError(
            f"run {found.id} stopped before its first round; start it again with: agent run {asked.problem}"
        )
    ended = log.finished is not None and log.finished.outcome in ("verified", "no_kernel", "budget")
    if ended and not given.keys() & MORE:
        told.say(f"run {found.id} has ended; pass --rounds N, or a higher limit, to allow more rounds")
        return Run(found)
    require = str(asked.options.get("require", ""))
    checks = with_requirements(stored.checked(checks, asked), require)
    choices = Choices(
        require=require,
        # A run that was begun by a version without automatic fixes continues without them.
        autofix=choices.autofix and asked.options.get("mend") is True,
        in_order=choices.in_order or asked.options.get("in_order") is True,
        no_wait=choices.no_wait,
    )
    return _Work(settings, log.started.problem, checks, choices, told).go_on(found, log)


def render_prompt(
    problem: Problem, *, require: str = "", checks: Checks | None = None, settings: Settings | None = None
) -> Prompt:
    """Return the first prompt that a run on this problem would send. Calls no model.

    >>> render_prompt(load_problem("level1/softmax")).messages[0].role
    'system'
    """
    from agent import prompts

    checks = checks or Checks()
    settings = settings or config.load(checks.flags(), offline=True).settings
    terms = terms_for(problem, settings, "", require, with_requirements(checks, require))
    situation = prompts.Situation(
        requirements=terms.requirements, gpu=terms.gpu, floor_ms=terms.floor_ms, library_ops=terms.library_ops
    )
    return prompts.render(problem, situation)


def _own_command(stored: str, run: str) -> str:
    """Return the program of a stored run if the user's settings name it too.

    Another user may have written the run, so its program is not trusted. Raises UsageError otherwise.
    """
    if config.load({}).settings.provider == stored:
        return stored
    raise UsageError(
        f"run {run} asked a program, and a stored one is not run unasked; go on with: "
        f"agent run --resume {run} --provider {shlex.quote(stored)}"
    )


def terms_for(problem: Problem, settings: Settings, provider: str, require: str, checks: Checks) -> "Terms":
    """Return the limits and search options of the loop and the context for its prompts."""
    from agent import prompts
    from agent.loop import Terms

    return Terms(
        rounds=1 if provider.startswith(ONE_ANSWER) else settings.rounds,
        patience=settings.patience,
        search=settings.search or "line",
        samples=settings.samples,
        width=settings.width,
        plan=bool(settings.plan),
        parallel=settings.parallel,
        good_enough=settings.good_enough,
        confirm=settings.confirm,
        requirements=prompts.wishes(require, checks.requests),
        gpu=gpu_of(settings),
        library_ops=settings.library_ops,
        floor_ms=floor_ms(problem, settings),
    )


MORE = {"rounds", "max_tokens", "max_cost", "max_time", "max_gpu_time"}
"""Settings that allow a finished run to continue."""


class _Work:
    """One call of `solve` or `resume` with its arguments."""

    def __init__(
        self, settings: Settings, problem: Problem, checks: Checks, choices: Choices, told: Listener
    ) -> None:
        confirm = settings.confirm if checks.confirm else "none"
        # The target GPU is stored by name, so that a run keeps it when resumed on another machine.
        self._settings = settings.model_copy(update={"gpu": gpu_of(settings), "confirm": confirm})
        self._problem, self._checks = problem, checks.model_copy(update={"confirm": True})
        self._choices, self._told = choices, told

    def begin(self, address: str) -> Run:
        """Start a new run and carry it to its end."""
        return self._carried(None, None, address)

    def go_on(self, found: store.Run, log: store.Log) -> Run:
        """Resume a run on disk and carry it to its end."""
        return self._carried(found, log, "")

    def _carried(self, found: store.Run | None, log: store.Log | None, address: str) -> Run:
        from agent.api.session import Session
        from agent.executors import LocalExecutor, Once
        from agent.providers.composed import begun_with_composed
        from agent.providers.tuning import Tuning, tuned

        settings, problem, told = bounded(self._settings), self._problem, self._told
        away = gpu_is_elsewhere(settings, may_wait=self._choices.no_wait)
        arch = None if away else architecture(settings)
        provider = choose(
            settings, problem, in_order=self._choices.in_order, wait=not self._choices.no_wait,
            arch=arch,
            told=Told(on_retry=lambda event: session.note(event), on_progress=self._streaming, say=told.say),
        )  # fmt: skip
        told = behind = Behind(told)
        checks = self._checks
        if settings.service is not None:
            checks = checks.model_copy(update={"confirm": settings.confirm != "none"})
        judge = (executor_elsewhere if away else executor_for)(settings, problem, checks, told)
        self._require_second_looks(judge)
        if isinstance(judge, LocalExecutor):
            judge.require_memory(problem)
        preparation = Preparation(judge, problem, self._checks.admit_anyway, behind)
        at_once = answers_at_once(provider.name, no_wait=self._choices.no_wait)
        (preparation.now if at_once else preparation.begin)()
        settings = self._settings = with_policy(settings, provider.name, judge.name)
        terms = terms_for(problem, settings, provider.name, self._choices.require, self._checks)
        terms = terms.model_copy(update={"mends": self._choices.autofix})
        if judge.name == "cuda":
            provider = tuned(provider, settings, terms.gpu)
        if isinstance(provider, Tuning):
            terms = terms.model_copy(update=dict.fromkeys(("rounds", "patience"), provider.answers))
        budget = budget_for(settings, provider.name, judge.name, log.events if log else ())
        run = found or store.create(
            settings.runs_dir,
            store.RunSettings(
                problem=address, problem_name=problem.name, provider=provider.name, model=settings.model,
                executor=judge.name, rounds=terms.rounds, patience=terms.patience,
                options=stored.options(settings, self._checks, self._choices),
            ),
        )  # fmt: skip
        told.began(run.id)
        provider = for_run(provider, run.id, log.events if log else ())
        told = heard_by(told, provider.hear) if isinstance(provider, (Several, Tuning)) else told
        with run.writer() as writer:
            known = store.Resume(log) if log else None
            session = Session(run, problem, terms, writer, told, known, budget)
            if log is None:
                told.say(f"run {run.id}: {problem.name}, provider {provider.name}, executor {judge.name}")
            else:
                told.say(f"run {run.id}: going on, {len(log.rounds)} rounds are on disk")
            if self._choices.from_composed and log is None:
                own = settings.library_ops == "none"
                provider = begun_with_composed(problem, provider, told.warn, arch, own)
            verdicts = (attempt.evaluation for attempt in log.attempts) if log else ()
            executor = Once(judge, verdicts) if isinstance(judge, LocalExecutor) else judge
            if at_once:
                session.solve(provider, executor)
            else:
                session.solve(
                    PreparedProvider(provider, preparation), PreparedExecutor(executor, preparation)
                )
                preparation.wait()
        return Run(run)

    def _require_second_looks(self, judge: "LocalExecutor | Elsewhere | Remote") -> None:
        """Raise UsageError for a `confirm` setting that would have no effect."""
        chosen = self._settings.confirm
        if chosen == "best":
            return
        if judge.name == "emulator" or self._checks.quick:
            where = "on the emulator" if judge.name == "emulator" else "with --quick"
            raise UsageError(f"--confirm {chosen}: there is no second look {where}; leave it out")
        if chosen == "end" and isinstance(judge, Remote):
            raise UsageError(
                "--confirm end: a service makes the second look with the first; choose best or none"
            )

    def _streaming(self, so_far: "StreamProgress") -> None:
        thinking = f", {so_far.reasoning_characters} of reasoning" if so_far.reasoning_characters else ""
        self._told.update(f"receiving: {so_far.text_characters} characters{thinking}")
