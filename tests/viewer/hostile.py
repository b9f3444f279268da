"""A transcript in which every text tries to run, to load, to hide or to reorder."""

from collections.abc import Iterator
from pathlib import Path

from transcripts import candidate
from viewer import runs

from agent.records import (
    Attempt,
    Build,
    Completed,
    Completion,
    Evaluated,
    Event,
    Feedback,
    Finding,
    KernelResources,
    Location,
    Message,
    Prompt,
    Prompted,
    ReplyRejected,
    RetryScheduled,
    RunFinished,
    Status,
)
from agent.store import Run

ELSEWHERE = "http://elsewhere.invalid"
MARKUP = (
    "<script>window.ran=1;alert(1)</script>"
    f'"\'><img src="{ELSEWHERE}/i" onerror="window.ran=2"><svg onload="window.ran=3">'
    '</script></style></textarea></title><script>window.ran=4</script>{"json":"</script>"}'
    f'<a href="javascript:window.ran=5">link</a><link rel="stylesheet" href="{ELSEWHERE}/s">'
    f'<meta http-equiv="refresh" content="0;url={ELSEWHERE}/m"><iframe src="{ELSEWHERE}/f"></iframe>'
    f'<base href="{ELSEWHERE}/"><form action="{ELSEWHERE}"><button autofocus>send</button></form>'
    "{{ 7 * 191 }} {% raise %} <!-- ]]>"
)
STEERING = "\x1b[31mred\x1b]0;title\x07 \u202ereversed\u2066 \0 nul \u200b\ufeff \x9b2J \ud800 end"
NASTY = f"{MARKUP}\n{STEERING}"
LONG_LINE = 10_000_000


def events() -> Iterator[Event]:
    problem = runs.PROBLEM.model_copy(update={"name": f"level1/{NASTY}", "source": f"{NASTY}\n" * 3})
    yield runs.STARTED.model_copy(update={"problem": problem, "provider": NASTY})
    asked = Prompt(
        template="repair",
        messages=(Message(role="system", content=NASTY), Message(role="user", content=f"```\n{NASTY}\n```")),
    )
    yield Prompted(round=1, prompt=asked)
    yield RetryScheduled(reason=NASTY, wait_seconds=1.0, tries=1)
    long = "".join((NASTY, "\n", "A" * LONG_LINE, MARKUP))
    said = Completion(
        provider=NASTY, model=NASTY, text=long, reasoning=long, finish_reason=NASTY, request_id=NASTY
    )
    yield Completed(round=1, prompt_id=asked.id, completion=said)
    finding = Finding(
        kind=NASTY,
        message=NASTY,
        location=Location(line=2, text=NASTY, kernel=NASTY),
        evidence=long,
    )
    build = Build(
        seconds=1.0, backend=NASTY, warnings=(NASTY, long),
        kernels=(KernelResources(name=NASTY), KernelResources(name="k" * 100_000)),
    )  # fmt: skip
    scope = runs.GPU.model_copy(update={"sizes": {NASTY: (8, 2)}, "skipped": (NASTY,)})
    judged = runs.failed(Status.INCORRECT, finding, build=build, scope=scope)
    first = candidate(f'"""{NASTY}"""\n{long}', note=NASTY)
    yield Evaluated(round=1, attempt=Attempt(number=1, candidate=first, evaluation=judged), seconds=1.0)
    second = candidate(f"{NASTY}\n\r{NASTY}\u2028x = 1\x0cy", parent=first.id)
    yield Evaluated(round=1, attempt=Attempt(number=2, candidate=second, evaluation=judged), seconds=1.0)
    third = candidate(f"{NASTY}\nchanged\n", parent=second.id)
    yield Evaluated(round=1, attempt=Attempt(number=3, candidate=third, evaluation=judged), seconds=1.0)
    yield Prompted(round=2, prompt=asked)
    yield Completed(round=2, prompt_id=asked.id, completion=said)
    yield ReplyRejected(round=2, feedback=Feedback(attempt=None, kind=NASTY, text=NASTY))
    yield RunFinished(outcome="failed", best=None, reason=NASTY)


def hostile_run(runs_dir: Path) -> Run:
    return runs.write(runs_dir, events(), problem_name=f"level1/{MARKUP}", provider=MARKUP, model=MARKUP)
