"""One round in full, for `agent show RUN --round N`: prompt, answer, verdicts and findings."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from agent import store
from agent.cli import console
from agent.cli.verdicts import STYLES, place, times
from agent.records import (
    Build,
    Completion,
    Evaluated,
    Evaluation,
    Finding,
    MismatchMap,
    Profile,
    SecondLook,
    Unconfirmed,
)

_MARKS = {"error": "red", "warning": "yellow", "note": "dim"}


def parts_of(entry: store.Round) -> Iterator[RenderableType]:
    """Yield prompt, retries, answer and each attempt's verdict. Reasoning is shown only with -v."""
    if entry.prompt:
        for message in entry.prompt.messages:
            yield _rule(f"round {entry.number}: {message.role} ({entry.prompt.template})")
            yield Text(console.readable(message.content))
    for retry in entry.retries:
        yield Text(f"asked again after {console.duration(retry.wait_seconds)}: {console.line(retry.reason)}")
    if entry.completion:
        yield from _answer(entry.completion, entry.number)
    else:
        yield _rule(f"round {entry.number}: no answer received")
    if entry.rejected:
        yield _rule(f"no candidate: {entry.rejected.kind}")
        yield Text(console.readable(entry.rejected.text))
    for event in entry.evaluated:
        yield from _verdict(event)
    for look in entry.second_looks:
        yield from _second_look(look)
    for unjudged in entry.unjudged:
        yield _rule(f"attempt {unjudged.number} ({unjudged.candidate.origin}): not judged")
        yield _prose(Text(console.line(unjudged.reason)))
        yield Text(console.readable(unjudged.details), style="dim")


def _answer(completion: Completion, number: int) -> Iterator[RenderableType]:
    yield _rule(f"round {number}: answer of {completion.model or completion.provider}")
    if completion.reasoning and console.is_verbose():
        yield Text(console.readable(completion.reasoning), style="dim")
        yield _rule("end of the reasoning")
    elif completion.reasoning:
        yield Text(f"[{len(completion.reasoning):,} characters of reasoning; -v shows them]", style="dim")
    yield Text(console.readable(completion.text))
    usage = completion.usage
    told = [
        f"{count:,} {name} tokens"
        for name, count in (
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("reasoning", usage.reasoning_tokens),
        )
        if count is not None
    ]
    told += [console.duration(completion.seconds)] if completion.seconds is not None else []
    told += [f"ended with {console.line(completion.finish_reason)}"] if completion.finish_reason else []
    yield Text(", ".join(told), style="dim")


def _verdict(event: Evaluated) -> Iterator[RenderableType]:
    attempt = event.attempt
    yield _rule(f"attempt {attempt.number} ({attempt.candidate.origin})")
    if attempt.candidate.note:
        yield Text(f"note: {console.line(attempt.candidate.note)}")
    yield from _evaluation(attempt.evaluation, event.seconds)


def _second_look(event: SecondLook | Unconfirmed) -> Iterator[RenderableType]:
    """Yield the verdict of the second look, or the reason why it could not be made."""
    if isinstance(event, SecondLook):
        yield _rule(f"second look at attempt {event.number}: {event.outcome}")
        yield from _evaluation(event.evaluation, event.seconds)
        return
    yield _rule(f"second look at attempt {event.number}: could not be made")
    yield _prose(Text(console.line(event.reason)))
    yield Text(console.readable(event.details), style="dim")


def _evaluation(evaluation: Evaluation, seconds: float | None) -> Iterator[RenderableType]:
    status = Text(str(evaluation.status), style=STYLES.get(evaluation.status, "red"))
    status.append(f" in stage {evaluation.stage} on {console.line(str(evaluation.scope))}", style="default")
    if seconds is not None:
        status.append(f", {console.duration(seconds)}", style="default")
    yield _prose(status)
    for check in evaluation.scope.skipped:
        yield _prose(Text(f"skipped: {console.line(check)}"))
    for finding in evaluation.findings:
        yield from _finding(finding)
    if evaluation.mismatch:
        yield from _picture(evaluation.mismatch)
    if evaluation.build:
        yield _build(evaluation.build)
    if evaluation.correctness and evaluation.correctness.error_budget_ratio is not None:
        seen = evaluation.correctness
        yield Text(f"accuracy: {seen.error_budget_ratio:.1%} of the allowed error, {seen.draws} draws")
    if evaluation.measurement:
        yield Text(f"measured: {times(evaluation.measurement)}")
    if evaluation.profile:
        yield _profile(evaluation.profile)
    if evaluation.envelope:
        yield _prose(Text(f"beyond what is stated: {console.line(str(evaluation.envelope))}"))


def _finding(finding: Finding) -> Iterator[RenderableType]:
    text = Text(f"{finding.severity}: {console.line(finding.kind)}", style=_MARKS[finding.severity])
    text.append(f"  {console.readable(finding.message)}", style="default")
    text.append(f" ({finding.count} times)" if finding.count > 1 else "", style="default")
    yield _prose(text)
    if finding.location:
        where = Text(f"    at {place(finding.location)}")
        where.append(f": {console.line(finding.location.text)}" if finding.location.text else "")
        yield where
    if finding.evidence:
        evidence = console.readable(finding.evidence).rstrip().replace("\n", "\n    ")
        yield Text(f"    {evidence}", style="dim")


def _picture(where: MismatchMap) -> Iterator[RenderableType]:
    rows, columns = where.axes
    told = f"output {where.output} of shape {where.shape}, {rows} down and {columns} across"
    yield _prose(Text(f"where it is wrong: {told}; . nowhere, 1 to 8 in so many eighths, # everywhere"))
    yield Text("\n".join(f"    {cells.replace('0', '.').replace('9', '#')}" for cells in where.cells))


def _prose(text: Text) -> Padding:
    """Mark text as prose, which `console.show` wraps to the width. Code and output keep their line breaks."""
    return Padding(text, 0)


def _build(build: Build) -> Text:
    text = Text(f"build: {build.backend}, {console.duration(build.seconds)}")
    for warning in build.warnings:
        text.append(f"\n    {console.readable(warning).rstrip()}", style="dim")
    for kernel in build.kernels:
        known = [
            f"{value} {unit}"
            for value, unit in (
                (kernel.registers, "registers"),
                (kernel.spill_bytes, "bytes spilled"),
                (kernel.shared_bytes, "bytes shared"),
            )
            if value is not None
        ]
        text.append(f"\n    {console.line(kernel.name)}: {', '.join(known) or 'no numbers'}")
    return text


def _profile(profile: Profile) -> Text:
    text = Text(f"profile: {len(profile.kernels)} kernels, copies and fills on {profile.streams} streams")
    for kernel in profile.kernels:
        whose = "its own" if kernel.own else "not its own"
        text.append(
            f"\n    {kernel.ms:.4g} ms, {kernel.launches} launches, {whose}: {console.line(kernel.name)}"
        )
    return text


def _rule(title: str) -> Rule:
    return Rule(Text(console.line(title)), align="left", style="dim")
