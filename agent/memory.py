"""Ledger of a run's attempts, and the escalation when the same finding comes back.

The ledger is an immutable value that the search carries from round to round and prompts render. It compares
sources and verdicts as text. Answers without code do not enter the ledger.
"""

import difflib
from collections.abc import Container
from typing import Any, Literal

from agent.diagnosis import signature
from agent.errors import ReplyError
from agent.records import MAY_END_OTHERWISE, Attempt, Candidate, Record, Status, digest

Escalation = Literal["none", "more-context", "another-approach", "back-to-best"]
LADDER: tuple[Escalation, ...] = ("none", "more-context", "another-approach", "back-to-best")
"""Escalation by the number of times the current fault was seen: once, twice, three times, more often."""

SHOWN_CHANGES = 2
CHANGE_CHARACTERS = 90
CAUSE_CHARACTERS = 160
REWRITTEN = 0.4
"""Fraction of unchanged lines below which a source counts as rewritten."""
_STAGES = ("screen", "build", "run", "verify", "integrity", "measure")


class Entry(Record):
    """One attempt as later prompts show it."""

    attempt: int
    status: Status
    stage: str
    cause: str
    """Kind of the headline finding. Empty for a verified attempt."""
    message: str
    """Message of the headline finding, truncated to one line."""
    signature: str
    """Identity of the fault, independent of numbers and line. Empty for a verified attempt."""
    changed: str
    """Description of the change. Empty for an attempt without a predecessor."""
    change: str
    """Hash of the changed lines, independent of their position."""
    effect: str
    """Effect of the change on the verdict."""
    text: str
    """Hash of the source, independent of white space."""

    @property
    def failed(self) -> bool:
        return self.status is not Status.VERIFIED

    def __str__(self) -> str:
        change = f", {self.changed};" if self.changed else ":"
        found = f": [{self.cause}] {self.message}" if self.failed else ""
        return f"attempt {self.attempt}{change} {self.effect}{found}"


class Ledger(Record):
    """The attempts of a run, oldest first."""

    entries: tuple[Entry, ...] = ()

    def with_attempt(self, attempt: Attempt, before: Attempt | None) -> "Ledger":
        """Return the ledger with one more attempt. `before` is the attempt that the prompt showed."""
        return Ledger(entries=(*self.entries, self._entry(attempt, before)))

    def with_verdict(self, attempt: Attempt) -> "Ledger":
        """Return the ledger with the second look's verdict in place of the first."""
        stage = attempt.evaluation.stage
        later = _verdict(attempt) | {
            "effect": f"verified at first, then refused by a second look, at {stage}"
        }
        return Ledger(
            entries=tuple(
                entry.model_copy(update=later) if entry.attempt == attempt.number else entry
                for entry in self.entries
            )
        )

    def refuse_repeat(self, candidate: Candidate) -> None:
        """Raise ReplyError if the same code was judged before and the verdict would be the same."""
        text = _text(candidate.source)
        for entry in self.entries:
            if entry.text == text and entry.status not in MAY_END_OTHERWISE:
                raise _repeat("This is the code", entry)

    def rebuilt(self, attempts: Container[int]) -> ReplyError:
        """Return the error for an answer that builds to the same program as these attempts."""
        known = next((entry for entry in self.entries if entry.attempt in attempts), None)
        return _repeat("Under other names and comments this builds to the program", known)

    @property
    def seen(self) -> int:
        """Return the number of attempts with the last attempt's fault.

        Returns 0 if the last attempt is verified or there is none.
        """
        last = self.entries[-1].signature if self.entries else ""
        return sum(entry.signature == last for entry in self.entries) if last else 0

    @property
    def escalation(self) -> Escalation:
        """Return how the next prompt reacts to a recurring fault."""
        return LADDER[min(max(self.seen - 1, 0), len(LADDER) - 1)]

    def _entry(self, attempt: Attempt, before: Attempt | None) -> Entry:
        hunks = _hunks(before.candidate.source, attempt.candidate.source) if before else []
        entry = Entry(
            attempt=attempt.number,
            **_verdict(attempt),
            changed=_words(before, attempt, hunks) if before else "",
            change=digest(*(line for hunk in hunks for side in hunk for line in side)) if hunks else "",
            effect="",
            text=_text(attempt.candidate.source),
        )
        return entry.model_copy(update={"effect": self._effect(entry, before)})

    def _effect(self, entry: Entry, before: Attempt | None) -> str:
        same = [old.attempt for old in self.entries if entry.change and old.change == entry.change]
        again = f"the change of attempt {same[0]} once more; " if same else ""
        if not entry.failed:
            return f"{again}verified"
        if before is None:
            return f"{again}fell at {entry.stage}"
        old = next((known for known in self.entries if known.attempt == before.number), None)
        if old is not None and old.signature == entry.signature:
            return f"{again}the same finding again"
        further = _STAGES.index(entry.stage) - _STAGES.index(before.evaluation.stage)
        if not old or not old.failed:
            return f"{again}broke what was verified, at {entry.stage}"
        if further == 0:
            return f"{again}another finding at {entry.stage}"
        return f"{again}{'got further, to' if further > 0 else 'fell earlier, at'} {entry.stage}"


def _repeat(what: str, entry: Entry | None) -> ReplyError:
    cause = f"{entry.status.value} ({entry.cause})" if entry and entry.failed else "verified"
    of = f"attempt {entry.attempt} again, which was judged {cause}" if entry else "an earlier answer again"
    return ReplyError(
        "repeated-answer", f"{what} of {of}: the verdict would be the same. Change what it computes or how."
    )


def _verdict(attempt: Attempt) -> dict[str, Any]:
    """Return the fields of an entry that describe the verdict on its attempt."""
    evaluation = attempt.evaluation
    headline = None if evaluation.status is Status.VERIFIED else evaluation.headline
    return {
        "status": evaluation.status,
        "stage": evaluation.stage,
        "cause": headline.kind if headline else "",
        "message": _line(headline.message, CAUSE_CHARACTERS) if headline else "",
        "signature": signature.compute_signature(headline) if headline else "",
    }


Hunk = tuple[tuple[str, ...], tuple[str, ...]]
"""Removed lines and added lines, without indentation."""


def _hunks(before: str, after: str) -> list[Hunk]:
    old, new = ([line.strip() for line in source.splitlines() if line.strip()] for source in (before, after))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [(tuple(old[a:b]), tuple(new[c:d])) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def _words(before: Attempt, attempt: Attempt, hunks: list[Hunk]) -> str:
    """Describe the change in one line. Of a rewrite, give only the number of new lines (see `REWRITTEN`)."""
    if attempt.candidate.origin == "mend" and attempt.candidate.note:
        return _line(f"mended mechanically: {attempt.candidate.note}", CAUSE_CHARACTERS)
    if not hunks:
        return f"the same as attempt {before.number}"
    lines = len([line for line in attempt.candidate.source.splitlines() if line.strip()])
    put_in = sum(len(new) for _, new in hunks)
    taken_out = sum(len(old) for old, _ in hunks)
    if put_in > (1 - REWRITTEN) * lines:
        return f"written anew after attempt {before.number} ({put_in} of {lines} lines are new)"
    shown = "; ".join(_hunk(*hunk) for hunk in hunks[:SHOWN_CHANGES])
    more = len(hunks) - SHOWN_CHANGES
    rest = f"; and {more} more place{'s' if more > 1 else ''}" if more > 0 else ""
    return f"against attempt {before.number} (+{put_in} -{taken_out} lines): {shown}{rest}"


def _hunk(old: tuple[str, ...], new: tuple[str, ...]) -> str:
    if not old:
        return f"added `{_line(new[0], CHANGE_CHARACTERS)}`"
    if not new:
        return f"removed `{_line(old[0], CHANGE_CHARACTERS)}`"
    return f"`{_line(old[0], CHANGE_CHARACTERS)}` became `{_line(new[0], CHANGE_CHARACTERS)}`"


def _line(text: str, most: int) -> str:
    """Return the text as one line of at most `most` characters, without control characters and backquotes."""
    line = "".join(c if c.isprintable() else " " for c in text.replace("`", "'"))
    line = " ".join(line.split())
    return line if len(line) <= most else f"{line[: most - 4]} ..."


def _text(source: str) -> str:
    return digest(" ".join(source.split()))
