"""Tools of the MCP server. Each asks the API one question; `access` checks the client's input first."""

from difflib import unified_diff
from itertools import count, pairwise
from typing import Annotated, Any

from anyio import CapacityLimiter
from mcp.server.mcpserver import Context
from pydantic import Field

from agent import mend, ranking, store
from agent.api import Checks, Judge, Run, submitting
from agent.api.judge import ExecutorName, gpu_of, load_problem
from agent.config import Settings
from agent.doors.mcp import answers
from agent.doors.mcp.access import Access, bounded
from agent.doors.mcp.calls import Call, carried
from agent.records import Attempt, Candidate, Request

Told = Context[Any, Any]
Reference = Annotated[
    str,
    Field(
        description="The reference: a shipped name such as level1/softmax, kernelbench:LEVEL/ID, or a file "
        "in the allowed folders of references."
    ),
]
Source = Annotated[
    str,
    Field(
        description="The candidate: the text of a Python file that defines ModelNew, a file in the allowed "
        "folders of candidates, or attempt K of a run as RUN:K."
    ),
]
Quick = Annotated[
    bool, Field(description="Three draws of inputs instead of fifteen; no last word on a candidate.")
]
Where = Annotated[
    ExecutorName | None, Field(description="cuda, emulator or auto; by default what the server is set to.")
]
Also = Annotated[tuple[Request, ...], Field(description="What is judged besides the outputs of forward.")]
Rounds = Annotated[int | None, Field(ge=1, le=1000, description="Answers that a new run takes.")]
RunId = Annotated[str, Field(description="The id of a run, a unique beginning of one, or recorded/NAME.")]


class Tools:
    """The tools of one server, within its access rights."""

    def __init__(self, settings: Settings, access: Access, at_a_time: int) -> None:
        """Create the tools; at most `at_a_time` judging calls run at once, and further ones wait."""
        self._settings, self._access = settings, access
        self._judging = CapacityLimiter(at_a_time)
        self._reading = CapacityLimiter(8)

    async def describe(self, context: Told, problem: Reference) -> answers.Description:
        """Describe a problem: the reference, its operators and shapes, the roofline floor, the GPU's card."""

        def work(call: Call) -> answers.Description:
            address = self._access.reference(problem)
            root = self._settings.kernelbench_root
            traced = load_problem(address, kernelbench_root=root, progress=call)
            return answers.description(traced, gpu_of(self._settings))

        return await carried(context, self._reading, work)

    async def judge(
        self, context: Told, problem: Reference, candidate: Source, quick: Quick = False,
        executor: Where = None, also: Also = (),
    ) -> answers.Verdict:  # fmt: skip
        """Judge a candidate against a reference: build it, verify it on secret inputs, time it on a GPU.

        The findings name what is wrong, by cause and place.
        """

        def work(call: Call) -> answers.Verdict:
            judged = self._judged(self._judge(call, problem, checks(quick, also), executor), candidate)
            return answers.verdict(judged.evaluation, judged)

        return await carried(context, self._judging, work)

    async def mend(
        self, context: Told, problem: Reference, candidate: Source, quick: Quick = False,
        executor: Where = None,
    ) -> answers.Mended:  # fmt: skip
        """Judge a candidate and mend faults that have exactly one mend, such as a missing declaration."""

        def work(call: Call) -> answers.Mended:
            judge, numbers = self._judge(call, problem, checks(quick, ()), executor), count(1)

            def attempt(one: Candidate) -> Attempt:
                return Attempt(number=next(numbers), candidate=one, evaluation=judge.evaluate(one))

            made = mend.line(attempt(self._candidate(judge, candidate)), attempt)
            return answers.Mended(
                verdicts=tuple(answers.verdict(one.evaluation, one) for one in made),
                changes=tuple(mend.difference(*pair) for pair in pairwise(made)),
                source=made[-1].candidate.source,
            )

        return await carried(context, self._judging, work)

    async def profile(
        self, context: Told, problem: Reference, candidate: Source, executor: Where = None
    ) -> answers.Profiled:
        """Judge a candidate and tell where its time goes: time by kernel, registers, spills, counters.

        Only a GPU has times; the emulator reports the compiler's resources of each kernel.
        """

        def work(call: Call) -> answers.Profiled:
            judge = self._judge(call, problem, Checks(), executor)
            judged = self._judged(judge, candidate)
            found = judged.evaluation
            note = "" if found.measurement else (
                "not measured: the emulator has no times" if judge.executor.name == "emulator"
                else "not measured: only a verified candidate is"
            )  # fmt: skip
            return answers.Profiled(
                verdict=answers.verdict(found, judged), build=found.build, kernels=found.profile, note=note
            )

        return await carried(context, self._judging, work)

    async def compare(
        self, context: Told, run: RunId, candidate: Source = "", quick: Quick = False
    ) -> answers.Standing:
        """Return the best verified kernel of a run; with a candidate, tell if that would replace it."""

        def work(call: Call) -> answers.Standing:
            found = self._access.run(run)
            if not candidate:
                return standing(found, None)
            asked = found.folder.info.settings
            place = {"executor": asked.executor} if asked.executor in ("cuda", "emulator") else {}
            settings = self._settings.model_copy(update=place)
            judge = Judge(found.problem, checks=Checks(quick=quick), progress=call, settings=settings)
            return standing(found, self._judged(judge, candidate))

        return await carried(context, self._judging, work)

    async def submit(
        self,
        context: Told,
        candidate: Source = "",
        run: Annotated[str, Field(description="The run; without one, a new run on `problem` begins.")] = "",
        problem: Reference = "",
        rounds: Rounds = None,
        executor: Where = None,
    ) -> answers.RunState:
        """Submit a candidate to a run, which judges, mends and records it and keeps the best kernel.

        Without a candidate, begin a new run or return the state of an existing one.
        """

        def work(call: Call) -> answers.RunState:
            # Resolve the candidate first, so that an invalid one begins no run.
            text = self._access.candidate(candidate) if candidate else ""
            found = self._access.run(run) if run else self._begun(call, problem, rounds, executor)
            before = len(found.attempts)
            if text:
                found = submitting.hand_in(found, bounded(text), progress=call)
            return answers.run_state(found, before)

        return await carried(context, self._judging, work)

    async def list_runs(
        self, context: Told, most: Annotated[int, Field(ge=1, le=answers.RUNS)] = 20
    ) -> tuple[answers.RunLine, ...]:
        """List the newest runs, and those that are shipped."""

        def work(call: Call) -> tuple[answers.RunLine, ...]:
            own = store.newest_first(store.list_runs(self._access.runs_dir))
            return tuple(
                answers.RunLine(
                    run=one.address, problem=one.problem, state=one.state, outcome=one.outcome,
                    executor=one.executor, attempts=one.attempts, best=one.best_attempt, speedup=one.speedup,
                )
                for one in [*own, *store.recorded_runs()][:most]
            )  # fmt: skip

        return await carried(context, self._reading, work)

    async def read_run(
        self,
        context: Told,
        run: RunId,
        attempt: Annotated[int | None, Field(ge=1, description="One attempt: its text as well.")] = None,
    ) -> dict[str, object]:
        """Return a run with the verdict on each attempt, or one attempt with its text."""

        def work(call: Call) -> dict[str, object]:
            found = self._access.run(run)
            if attempt is None:
                return answers.run_state(found).model_dump(mode="json")
            _, one = store.resolve_attempt(f"{found.address}:{attempt}", self._access.runs_dir)
            judged = answers.verdict(one.evaluation, one).model_dump(mode="json")
            return {"source": answers.cut(one.candidate.source, 2**18), "verdict": judged}

        return await carried(context, self._reading, work)

    def _begun(self, call: Call, problem: str, rounds: int | None, executor: ExecutorName | None) -> Run:
        return submitting.begin(
            self._access.reference(problem), executor=executor or self._settings.executor, rounds=rounds,
            runs_dir=self._access.runs_dir, progress=call,
        )  # fmt: skip

    def _judge(self, call: Call, problem: str, asked: Checks, executor: ExecutorName | None) -> Judge:
        settings = self._settings
        if executor:
            settings = settings.model_copy(update={"executor": executor})
        return Judge(self._access.reference(problem), checks=asked, progress=call, settings=settings)

    def _candidate(self, judge: Judge, given: str) -> Candidate:
        return Candidate(problem=judge.problem.name, source=self._access.candidate(given), origin="file")

    def _judged(self, judge: Judge, given: str) -> Attempt:
        candidate = self._candidate(judge, given)
        return Attempt(number=1, candidate=candidate, evaluation=judge.evaluate(candidate))


def checks(quick: bool, also: tuple[Request, ...]) -> Checks:
    named = {name.replace("-", "_"): True for name in also}
    return Checks(quick=quick).model_copy(update=named)


def standing(run: Run, judged: Attempt | None) -> answers.Standing:
    """Compare the best of a run with a newer attempt."""
    best, change = run.best, ""
    if best is not None and judged is not None:
        old, new = (one.candidate.source.splitlines() for one in (best, judged))
        change = "\n".join(unified_diff(old, new, "best", "candidate", n=2, lineterm=""))
    return answers.Standing(
        run=run.id,
        best=best.number if best else None,
        best_scope=str(best.evaluation.scope) if best else None,
        best_source=best.candidate.source if best else None,
        best_measurement=best.evaluation.measurement if best else None,
        candidate=answers.verdict(judged.evaluation, judged) if judged else None,
        better=ranking.better(best, judged) is judged if judged else None,
        change=answers.cut(change, 4 * answers.TEXT_CHARACTERS),
    )
