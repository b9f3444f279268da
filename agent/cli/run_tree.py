"""Overview of a run for `agent show RUN`: its settings, its outcome, and its attempts as a tree."""

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from agent import store
from agent.cli import console
from agent.cli.verdicts import STYLES, brief, times, told
from agent.records import Attempt, Finding, Move, SecondLook, Unconfirmed, Unjudged
from agent.store import branches, history

MESSAGE_CHARS = 320
"""Maximum characters of a cause, about four terminal lines. `--round` prints all of it."""
IDEA_CHARS = 110
"""Maximum characters of a plan shown in the tree."""


def header(run: store.Run, info: store.RunInfo | None, log: store.Log, told: history.History) -> Table:
    """Return a table of the run's settings, state, usage, and best verdict with its scope."""
    rows = [("run", run.address)]
    if info:
        asked = info.settings
        model = f", {asked.model}" if asked.model else ""
        rows += [
            ("problem", asked.problem_name),
            ("provider", f"{asked.provider}{model}"),
            ("executor", asked.executor),
            *([("search", log.started.search)] if log.started and log.started.search != "line" else []),
            ("created", f"{info.created:%Y-%m-%d %H:%M} UTC, kernelwright {info.version}"),
        ]
    state = store.state_of(run, log)
    rows.append(("state", f"{state}: {log.finished.reason}" if log.finished else state))
    rows += [("took", spent)] if (spent := _spent(told.totals)) else []
    best = told.entry(told.best) if told.best is not None else None
    rows += _best(best.attempt) if best else [("best", "none verified")]
    if best and (run.path / "best.py").is_file():
        rows.append(("file", str(run.path / "best.py")))
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, value in rows:
        table.add_row(Text(name, style="dim"), console.short(value, 2 * MESSAGE_CHARS))
    return table


def tree(rounds: tuple[store.Round, ...], told: history.History) -> Tree:
    """Return the rounds as a tree.

    Each round stands below the round that it continues and contains its attempts. A mend stands below the
    attempt that it repairs.
    """
    root = Tree("rounds" if rounds else "no round was begun", guide_style="dim")
    entries: dict[int, list[history.Entry]] = {}
    for entry in told.entries:
        entries.setdefault(entry.round, []).append(entry)
    # Latest node at each depth; a deeper branch is added below it.
    last = [root]
    for branch in branches.order_rounds(rounds):
        del last[branch.depth + 1 :]
        node = last[-1].add(_round(branch))
        last.append(node)
        _came_of(node, branch.round, entries.get(branch.round.number, []), told.best)
    return root


def _came_of(node: Tree, round_: store.Round, entries: list[history.Entry], best: int | None) -> None:
    for retry in round_.retries:
        waited = console.duration(retry.wait_seconds)
        node.add(Text(f"asked again after {waited}: {console.short(retry.reason, MESSAGE_CHARS)}"))
    if round_.rejected:
        said = console.short(round_.rejected.text, MESSAGE_CHARS)
        node.add(Text(f"no candidate  {said}", style="red"))
    nodes: dict[int, Tree] = {}
    for entry in entries:
        # Only mends share a round with their parent; a repair by the model stands in a new round.
        parent = nodes.get(entry.parent or 0, node)
        nodes[entry.number] = parent.add(attempt(entry, is_best=entry.number == best))
    for event in round_.unjudged:
        node.add(unjudged(event))
    for look in round_.second_looks:
        node.add(second_look(look) if isinstance(look, SecondLook) else unconfirmed(look))


def attempt(entry: history.Entry, *, is_best: bool = False) -> Text:
    """Return an attempt's number, origin, verdict, change against its parent and time; the cause below."""
    text = verdict(entry)
    if is_best:
        text.append("  best", style="bold green")
    return text.append(f"\n{cause(entry.cause)}") if entry.cause else text


def unjudged(event: Unjudged) -> Text:
    """Return text such as `attempt 3 (model)  not judged  4.2 s`, followed by the reason."""
    text = Text(f"attempt {event.number} ({event.candidate.origin})  ").append("not judged", style="yellow")
    if event.seconds is not None:
        text.append(f"  {console.duration(event.seconds)}", style="dim")
    return text.append(f"\n{console.short(event.reason, MESSAGE_CHARS)}")


def second_look(event: SecondLook) -> Text:
    """Return text such as `second look at attempt 3: confirmed, verified (GPU, 2.10x)  41 s`."""
    found = event.evaluation
    text = Text(f"second look at attempt {event.number}: ")
    text.append(f"{event.outcome}, {told(found)}", style=STYLES.get(found.status, "red"))
    if event.seconds is not None:
        text.append(f"  {console.duration(event.seconds)}", style="dim")
    return text


def unconfirmed(event: Unconfirmed) -> Text:
    """Return `second look at attempt 3: could not be made`, followed by the reason."""
    text = Text(f"second look at attempt {event.number}: ").append("could not be made", style="yellow")
    if event.seconds is not None:
        text.append(f"  {console.duration(event.seconds)}", style="dim")
    return text.append(f"\n{console.short(event.reason, MESSAGE_CHARS)}")


def cause(finding: Finding) -> str:
    """Return kind and message of a finding on one line, such as `wrong-values: ...`."""
    return f"{console.line(finding.kind)}: {console.short(finding.message, MESSAGE_CHARS)}"


def verdict(entry: history.Entry) -> Text:
    """Return text such as `attempt 3 (model, from 2)  incorrect  +12 -3  4.2 s`."""
    made = entry.attempt
    origin = made.candidate.origin
    if entry.parent is not None:
        origin_words = f"{origin} of {entry.parent}" if origin == "mend" else f"{origin}, from {entry.parent}"
    else:
        origin_words = origin
    text = Text(f"attempt {made.number} ({origin_words})  ")
    text.append(brief(made), style=STYLES.get(made.evaluation.status, "red"))
    if entry.change:
        text.append(f"  +{entry.change.added} -{entry.change.removed}", style="dim")
    if entry.seconds is not None:
        text.append(f"  {console.duration(entry.seconds)}", style="dim")
    return text


def tokens(input_tokens: int | None, output_tokens: int | None) -> str:
    """Return input and output tokens such as `1,200 + 340 tokens`, or an empty string if both are unknown."""
    if input_tokens is None and output_tokens is None:
        return ""
    known = (f"{count:,}" if count is not None else "?" for count in (input_tokens, output_tokens))
    return f"{' + '.join(known)} tokens"


def came_from(number: int, move: Move | None, template: str) -> str:
    """Return the origin of a round, such as ` after 2`, ` after 2 and 5` or ` afresh`.

    Returns an empty string if the round continues the previous one.
    """
    if move is None or move.after == (number - 1 or None):
        return f" and {move.beside}" if move and move.beside else ""
    if move.after is None:
        return " afresh" if template == "generate" else ""
    return f" after {move.after}" + (f" and {move.beside}" if move.beside else "")


def _round(branch: branches.Branch) -> Text:
    entry = branch.round
    words = [f"round {entry.number}", branch.asked]
    words += [f"island {entry.move.island + 1}"] if entry.move and entry.move.island else []
    words += [console.duration(entry.seconds)] if entry.seconds is not None else []
    if entry.completion is None:
        words.append("no answer received")
    else:
        usage = entry.completion.usage
        words.append(tokens(usage.input_tokens, usage.output_tokens))
        words += [f"${entry.completion.cost_usd:.4f}"] if entry.completion.cost_usd is not None else []
    text = Text(", ".join(filter(None, words)))
    if branch.idea:
        text.append(f"\n{console.short(branch.idea, IDEA_CHARS)}", style="dim")
    return text


def _spent(totals: history.Totals) -> str:
    """Return usage such as `3:07 answering, 1:02 judging, at least 4,800 + 1,360 tokens, $0.05`.

    Unknown parts are left out.
    """
    counted = tokens(totals.input_tokens, totals.output_tokens)
    words = [
        f"{console.duration(seconds)} {doing}"
        for seconds, doing in ((totals.answer_seconds, "answering"), (totals.judging_seconds, "judging"))
        if seconds is not None
    ]
    words += [f"{'at least ' if totals.partial else ''}{counted}"] if counted else []
    words += [f"${totals.cost_usd:.4f}"] if totals.cost_usd is not None else []
    return ", ".join(words)


def _best(best: Attempt) -> list[tuple[str, str]]:
    evaluation = best.evaluation
    rows = [("best", f"attempt {best.number}, {evaluation.status} on {evaluation.scope}")]
    rows += [("", f"skipped: {check}") for check in evaluation.scope.skipped]
    return rows + ([("", times(evaluation.measurement))] if evaluation.measurement else [])
