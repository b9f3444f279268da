"""Routes for a trainer: the prompt for a problem, and the score of a completion.

A completion's candidate is an ordinary job, so a repeated candidate is judged once, and its score is a
function of its verdict. If a fault of the machine prevents judging, the score has no total.
"""

from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Query
from pydantic import Field

from agent import problems, reward
from agent.api.checks import Checks
from agent.api.service import Answer, Asked, ProblemText, State
from agent.doors.service.desk import LONGEST_WAIT_S, Desk
from agent.errors import AgentError
from agent.records import Prompt, Record


class Wanted(Record):
    """A problem, and the checks to apply."""

    problem: str | ProblemText
    checks: Checks = Checks()


class Completed(Wanted):
    """A model's answer, unchanged."""

    completion: Annotated[str, Field(max_length=reward.LARGEST_BYTES)]


class Scored(Record):
    """State of a completion's job, with the score once it is judged."""

    id: str = ""
    """Id of its candidate's job; empty if it holds no candidate."""
    state: State
    score: reward.Score | None = None


class Names(Record):
    problems: tuple[str, ...]


def add_scores(app: FastAPI, desk: Desk) -> None:
    Token = Annotated[str, Depends(desk.token)]

    @app.get("/v1/problems")
    def names(token: Token) -> Names:
        """List the shipped references; the service may accept other references too."""
        return Names(problems=problems.names())

    @app.post("/v1/prompts")
    def prompt(wanted: Wanted, token: Token) -> Prompt:
        """Return the prompt for a model that writes a kernel for a problem, on this service's GPU."""
        desk.count(token)
        try:
            return desk.judging.prompt(wanted.problem, wanted.checks)
        except AgentError as error:
            raise HTTPException(422, str(error)) from error

    @app.post("/v1/scores", status_code=202)
    def score(asked: Completed, token: Token) -> Scored:
        """Score a completion; a later completion with the same candidate gives the same job."""
        name = asked.problem if isinstance(asked.problem, str) else asked.problem.name
        taken = reward.taken(name, asked.completion)
        if isinstance(taken, reward.Score):
            return Scored(state="done", score=taken)
        job = Asked(problem=asked.problem, candidate=taken.source, checks=asked.checks)
        return _scored(desk.accept(job, token))

    @app.get("/v1/scores/{name}")
    async def awaited(
        name: str, token: Token, wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT_S)] = 0
    ) -> Scored:
        """Return the score of a job's candidate, waiting up to `wait` seconds for it."""
        return _scored(await desk.awaited(name, wait))


def _scored(answer: Answer) -> Scored:
    """Return the score of an answer. Raises HTTPException for a job that judges no candidate."""
    if answer.state in ("queued", "running"):
        return Scored(id=answer.id, state=answer.state)
    if answer.fault is not None:
        return Scored(id=answer.id, state=answer.state, score=reward.unjudged(answer.fault.message))
    if answer.evaluation is None:
        raise HTTPException(404, "that job judges no candidate")
    return Scored(id=answer.id, state=answer.state, score=reward.scored(answer.evaluation))
