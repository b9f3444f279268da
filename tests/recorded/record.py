"""Writes runs/recorded/group_norm: the real loop over answers written for it.

Run `python -m tests.recorded.record` after a change of the prompts, the judge or the answers. The answers
reproduce faults that real models make on this problem; every verdict comes from the real evaluation. As in
`agent run` the first is mended without a model call, so that attempts 3 and 4 are answers 3 and 4.
"""

import shutil
import sys
from pathlib import Path

from agent import config, problems, resources, store
from agent.api import Checks
from agent.api.judge import floor_ms, gpu_of, local_executor
from agent.api.session import Session
from agent.cli.telling import telling
from agent.loop import Terms
from agent.providers.scripted import Scripted

ANSWERS = Path(__file__).parent / "group_norm"
GIVEN = (1, 3, 4)
"""Answer 2 is what a model writes that is asked to declare its function; the mend of answer 1 does that."""
PROBLEM = "level1/group_norm"
NAME = "group_norm"


def record(into: Path) -> Path:
    """Runs the loop and puts the run at `into`; returns that path."""
    settings = config.load({"executor": "emulator"}, offline=True).settings
    problem = problems.load(PROBLEM)
    provider = Scripted([(ANSWERS / f"{number}.md").read_text() for number in GIVEN])
    with telling("recording") as told:
        judge = local_executor(settings, problem, Checks(), told)
        gpu = gpu_of(settings)
        terms = Terms(rounds=4, patience=2, gpu=gpu, floor_ms=floor_ms(problem, settings))
        asked = store.RunSettings(
            problem=PROBLEM, problem_name=problem.name, provider=provider.name, executor=judge.name,
            rounds=terms.rounds, patience=terms.patience, options={"gpu": gpu, "mend": terms.mends},
        )  # fmt: skip
        run = store.create(into.parent, asked)
        with run.writer() as writer:
            finished = Session(run, problem, terms, writer, told).solve(provider, judge)
    if finished.outcome != "verified":
        raise SystemExit(f"the recording did not end verified: {finished.reason}; it is kept in {run.path}")
    shutil.rmtree(into, ignore_errors=True)
    return run.path.rename(into)


if __name__ == "__main__":
    sys.stdout.write(f"{record(resources.folder('recorded') / NAME)}\n")
