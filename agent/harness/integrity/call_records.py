"""Records of every judged call, and the choice of calls that are replayed.

Calls at the same sizes should behave alike: the same kernels with the same geometry, and the same torch
operators. After the last judged call, the judge picks one call of each behaviour for replay. A candidate
whose kernels compute the result in some calls only is refused, and the finding names the difference between
the calls. Each record is taken from the worker's folder as soon as its call has ended.
"""

import itertools
import os
import secrets
import stat
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from agent.emulator.replay import calls, host_words, operators
from agent.emulator.replay.calls import Behaviour, Segment
from agent.emulator.replay.events import Forged
from agent.harness.integrity import checked_replay, replay_evidence, replay_findings
from agent.harness.integrity.launch_limits import NEVER_STARTED
from agent.harness.integrity.replay_check import Evidence, Recorded
from agent.harness.integrity.replay_evidence import Outcome
from agent.harness.integrity.replay_findings import NOT_NEEDED
from agent.harness.task import faults, protocol
from agent.harness.task.job import secret_seed
from agent.harness.task.protocol import Draw
from agent.records import Finding, LibraryOps, Status

MOST_REPEATED = 4
"""Maximum number of replayed calls; if there are more behaviours, some are picked at random."""
MOST_CHECKED = 3
"""Maximum number of calls that are replayed with memory checks."""
RECORD = "record.jsonl"
"""Name of the worker's record file."""
_LARGEST, _LARGEST_TOGETHER = 64 << 20, 128 << 20
BEHAVES_OTHERWISE = "calls-behave-differently"


class Drawn(NamedTuple):
    """Parameters and inputs of a call, and the structure of its output."""

    parameters_seed: int
    inputs_seed: int
    draw: Draw
    tree: Any

    @property
    def words(self) -> str:
        return protocol.WORDS.get(self.draw.family or "", "inputs as stated")

    @property
    def is_new(self) -> bool:
        """True if no part of the inputs was used in an earlier call."""
        return not self.draw.repeat and self.draw.family != protocol.NEAR

    @property
    def is_stated(self) -> bool:
        """True if the inputs are new and drawn from the problem's own distribution."""
        return self.is_new and self.draw.family is None


class CallRecords:
    """Records of one worker's calls, in order."""

    def __init__(self, setting: LibraryOps = "none") -> None:
        self._setting: LibraryOps = setting
        self._drawn: list[Drawn] = []
        self._segments: list[Segment] = []
        self._behaviours: list[Behaviour] = []
        self._launches = self._bytes = 0
        self._later: int | None = None
        """Index of the extra call made after calls were chosen for replay, or None."""

    def add(self, folder: Path, drawn: Drawn, launches: int | None) -> None:
        """Add the record of a call that has just ended. Raises Refused if it is invalid or has no launch.

        `launches` is the number of launches in all calls so far.
        """
        number = len(self._drawn) + 1
        if launches is not None and launches <= self._launches:
            found = faults.NO_LAUNCH if number == 1 else _none_launched(number)
            raise faults.Refused(Status.REJECTED, "verify", [found])
        self._launches = launches or 0
        record = folder / RECORD
        try:
            text = _text(record, min(_LARGEST, _LARGEST_TOGETHER - self._bytes))
            self._bytes += len(text)
            self._segments.append(calls.segment(text))
        except Forged as error:
            raise faults.Refused(Status.REJECTED, "integrity", [replay_findings.unusable(error)]) from None
        record.unlink(missing_ok=True)
        self._drawn.append(drawn)
        self._behaviours.append(calls.behaviour(self._segments[-1]))

    def last(self, folder: Path) -> Recorded:
        """Return the last call, whose record is still in `folder`, on the oracle's current inputs.

        Raises Forged.
        """
        return Recorded(
            [*self._segments, read(folder / RECORD)], len(self._segments), (), 0, 0, 0, None, None
        )

    def check(
        self, evidence: Evidence, locate: Callable[[Finding], Finding], once_more: Callable[[int], None]
    ) -> None:
        """Raise Refused if the candidate's own kernels do not account for its results.

        `once_more` makes another call on inputs drawn with the given seed and adds its record.
        """
        found = list(map(locate, self.findings(evidence, once_more)))
        if found and found[0].kind == NEVER_STARTED:
            raise faults.Refused(Status.RUNTIME_ERROR, "run", found)
        if found:
            raise faults.Refused(Status.REJECTED, "integrity", found)
        if evidence.checks:
            self._check_accesses(evidence, locate)

    def _check_accesses(self, evidence: Evidence, locate: Callable[[Finding], Finding]) -> None:
        """Replay calls with memory checks. Raises Refused."""
        orders = itertools.cycle(checked_replay.ORDERS)
        for number, order in zip(self.to_check(), orders, strict=False):
            claims = checked_replay.found(self._recorded(number), evidence, order)
            found = faults.device_findings(claims, locate)
            if found:
                # The first draw passed its memory checks; a candidate that fails them is refused earlier.
                refused = faults.Refused(Status.RUNTIME_ERROR, "run", [*found, faults.SOME_CALLS])
                raise faults.under(protocol.WORDS.get(self._drawn[number].draw.family or ""), refused)

    def to_check(self) -> list[int]:
        """Return a random call of each kind, up to MOST_CHECKED kinds.

        Calls are of one kind if they have the same behaviour and the host passed the same values.
        """
        allocated = host_words.memory(self._segments)
        alike: dict[Any, list[int]] = {}
        for number, segment in enumerate(self._segments):
            words = host_words.by_value(segment.call, allocated)
            alike.setdefault((self._behaviours[number], words), []).append(number)
        kinds = secrets.SystemRandom().sample(list(alike.values()), min(len(alike), MOST_CHECKED))
        unseen = ([n for n in group if not self._drawn[n].draw.checked] for group in kinds)
        return [secrets.choice(new or group) for new, group in zip(unseen, kinds, strict=True)]

    def findings(self, evidence: Evidence, once_more: Callable[[int], None]) -> list[Finding]:
        """Return findings on results that the candidate's own kernels do not account for, if any."""
        right: Behaviour | None = None
        refused: tuple[int, list[Finding]] | None = None
        for number in self.chosen():
            found, may_be_stale = self._on_fresh_inputs(number, evidence, once_more)
            if may_be_stale and self._on_their_own_inputs(number, evidence, once_more):
                found = []
            if not found:
                right = right or self._behaviours[number]
            elif refused is None:
                refused = number, found
        if refused is None:
            return []
        number, found = refused
        return [self._told(finding, number, right) for finding in found]

    def _on_fresh_inputs(
        self, number: int, evidence: Evidence, once_more: Callable[[int], None]
    ) -> tuple[list[Finding], bool]:
        """Return a call's findings on fresh inputs, and whether stale host values may explain them.

        If the replay is blind (`Outcome.blind`), a call of equal behaviour on stated inputs is used instead.
        """
        looked = self._looked(number, evidence, once_more)
        alike = [
            other for other, behaviour in enumerate(self._behaviours)
            if behaviour == self._behaviours[number] and self._drawn[other].is_stated
        ]  # fmt: skip
        if looked.blind and not looked.findings and alike:
            looked = self._looked(secrets.choice(alike), evidence, once_more)
        return looked.findings, looked.may_be_stale

    def _looked(self, number: int, evidence: Evidence, once_more: Callable[[int], None]) -> Outcome:
        """Return a call's outcome on fresh inputs, after one more call if no other has its parameters.

        Comparing two calls on equal parameters shows which values the host derived from the inputs.
        """
        recorded = self._recorded(number)
        looked = replay_evidence.on_fresh_inputs(recorded, evidence)
        alone = looked.blind and looked.findings and not recorded.others
        if alone and self._later_call(once_more) is not None:
            return replay_evidence.on_fresh_inputs(self._recorded(number), evidence)
        return looked

    def _on_their_own_inputs(self, number: int, evidence: Evidence, once_more: Callable[[int], None]) -> bool:
        """Return True if the replays of a call and of a later one, each on its own inputs, are right.

        The inputs of the later call are drawn after the candidate built its kernels and tables.
        """
        later = self._later_call(once_more)
        return later is not None and all(
            replay_evidence.on_its_own_inputs(self._recorded(call), evidence) for call in (number, later)
        )

    def _later_call(self, once_more: Callable[[int], None]) -> int | None:
        """Return the index of the extra call, made now if there is none yet, or None if it is wrong."""
        if self._later is None:
            try:
                once_more(secret_seed())
            except faults.Refused as refused:
                if refused.status is not Status.INCORRECT:
                    raise
                return None
            self._later = len(self._drawn) - 1
        return self._later

    def chosen(self) -> list[int]:
        """Return a random call of each behaviour, the most frequent behaviour first."""
        alike: dict[Behaviour, list[int]] = {}
        for number, behaviour in enumerate(self._behaviours):
            alike.setdefault(behaviour, []).append(number)
        groups = sorted(alike.values(), key=lambda group: -len(group))
        others = groups[1:]
        secrets.SystemRandom().shuffle(others)
        few = min((behaviour for behaviour in alike), key=lambda b: b.launches, default=None)
        others.sort(key=lambda group: self._behaviours[group[0]] != few)
        return [self._one_of(group) for group in (*groups[:1], *others)[:MOST_REPEATED]]

    def operators(self) -> frozenset[str]:
        """Return the names of torch operators that computed something in any call."""
        ran = (key for behaviour in self._behaviours for key, _ in behaviour.operators)
        return frozenset(name for name, _ in ran)

    def may_run(self, name: str) -> bool:
        """Return True if torch operator `name` is allowed or has run in a judged call."""
        return operators.allowed(name, self._setting) or name in self.operators()

    def take_slots(self) -> bool:
        """Return True if calls of one instance pass kernels different places in one kept allocation."""
        allocated = host_words.memory(self._segments)
        one_instance = (
            [n for n, drawn in enumerate(self._drawn) if drawn.parameters_seed == seed]
            for seed in {drawn.parameters_seed for drawn in self._drawn}
        )
        return any(
            first != second
            for numbers in one_instance
            for first, second in pairwise(
                host_words.kept_places(self._segments[number].call, allocated) for number in numbers
            )
        )

    def _one_of(self, group: list[int]) -> int:
        new = [number for number in group if self._drawn[number].is_new]
        return secrets.choice(new or group)

    def _recorded(self, number: int) -> Recorded:
        drawn = self._drawn[number]
        others = [
            n for n, other in enumerate(self._drawn)
            if n != number and other.is_new and other.parameters_seed == drawn.parameters_seed
            and other.inputs_seed != drawn.inputs_seed
        ]  # fmt: skip
        family = None if drawn.draw.family == protocol.NEAR else drawn.draw.family
        return Recorded(
            self._segments, number, others if drawn.is_new else (), drawn.parameters_seed,
            drawn.inputs_seed, secret_seed(), family, drawn.tree,
        )  # fmt: skip

    def _told(self, finding: Finding, number: int, right: Behaviour | None) -> Finding:
        """Return the finding on one call, with its difference from the behaviour of a right call, if any."""
        if right is None or finding.kind in (NOT_NEEDED, NEVER_STARTED):
            return finding
        apart = calls.difference(self._behaviours[number], right)
        message = (
            f"Call {number + 1} of {len(self._drawn)}, with {self._drawn[number].words}, does not do what "
            f"other calls do: {apart}. {finding.message}"
        )
        return finding.model_copy(update={"kind": BEHAVES_OTHERWISE, "message": message})


def _none_launched(number: int) -> Finding:
    message = (
        f"Call {number} launched no kernel of this file, while the calls before it did: its result came from "
        "somewhere else."
    )
    return Finding(kind=faults.NO_LAUNCH.kind, message=message)


def read(path: Path) -> Segment:
    """Return the worker's record of one call. Raises Forged."""
    return calls.segment(_text(path, _LARGEST))


def _text(path: Path, most: int) -> str:
    """Return the text of a file of the worker. Raises Forged unless it is a plain file of `most` bytes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise Forged(f"there is none ({error.strerror})") from None
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            raise Forged(f"it is no plain file of at most {most >> 20} MB")
        return file.read(most).decode("utf-8", "replace")
