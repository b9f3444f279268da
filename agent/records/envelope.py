"""Behaviour of a verified candidate on inputs that its problem does not state. Recorded, never judged."""

from typing import Literal

from agent.records.base import Record

Kind = Literal["layout", "batch", "size", "rank", "dtype"]
Outcome = Literal["right", "wrong", "raises", "crashes", "hangs"]
"""Outcome of a probe. `right` and `wrong`: the protocol's comparator accepts or refuses the output.
`raises`: a Python exception. `crashes`: the candidate's process ends. `hangs`: the call exceeds its time
limit."""


class Probe(Record):
    """One call of the candidate on inputs that the problem does not state but the reference accepts."""

    kind: Kind
    what: str
    """Description of the inputs: `batch 1`, `shape (4, 33)`, `strided inputs`, `float16`."""
    outcome: Outcome
    message: str | None = None
    """Fault of the candidate on these inputs, in one sentence."""


class Envelope(Record):
    """Probes made of one candidate, and descriptions of omitted probes with the reasons."""

    probes: tuple[Probe, ...] = ()
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return text such as `handles batch 1, batch 17, float64; not float16 (raises)`."""
        right = ", ".join(probe.what for probe in self.probes if probe.outcome == "right")
        failed = ", ".join(f"{p.what} ({p.outcome})" for p in self.probes if p.outcome != "right")
        words = [f"handles {right}" if right else "", f"not {failed}" if failed else ""]
        left_out = f"not tried: {'; '.join(self.left_out)}" if self.left_out else ""
        return "; ".join(filter(None, [*words, left_out])) or "the reference takes nothing but what is stated"
