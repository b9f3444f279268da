"""Measurements and counts as short lines for a prompt, within the token budgets of `sections`.

This module only formats. Unknown numbers are omitted.
"""

from collections.abc import Sequence

from agent import sections
from agent.problems.gpu_cards import Card
from agent.records import Finding, KernelResources, KernelTime, Profile

NAME = 90
"""Maximum number of characters shown of a kernel's name."""


def quantity(value: int, unit: str) -> str:
    """Format with three significant digits and a decimal prefix: 7516192768 B is `7.52 GB`."""
    scaled = float(value)
    for prefix in ("", "k", "M", "G"):
        if scaled < 999.5:
            return f"{scaled:.3g} {prefix}{unit}"
        scaled /= 1000
    return f"{scaled:.3g} T{unit}" if scaled < 999.5 else f"{scaled:.0f} T{unit}"


def resources(kernel: KernelResources, card: Card | None = None) -> str:
    """Return a kernel's resources as ptxas reports them, and the number of warps that its registers allow."""
    known = {
        "registers": kernel.registers,
        "bytes spilled": kernel.spill_bytes,
        "bytes of shared memory": kernel.shared_bytes,
    }
    words = [f"{value} {name}" for name, value in known.items() if value is not None]
    if card and kernel.registers:
        words.append(f"registers for {card.warps(kernel.registers)} of {card.architecture.warps} warps")
    return ", ".join(words) or "no compiler statistics"


def launches(profile: Profile) -> str:
    """Return the launches of one call with their times, longest first, and the number of omitted ones."""
    return _times(
        [(kernel, "" if kernel.own else " (not yours)") for kernel in profile.kernels], sections.LAUNCHES
    )


def rivals(kernels: Sequence[KernelTime]) -> str:
    """Return the launches of another program for the same problem, in the format of `launches`."""
    return _times([(kernel, "") for kernel in kernels], sections.RIVALS)


def _times(kernels: Sequence[tuple[KernelTime, str]], limit: int) -> str:
    whole = sum(kernel.ms for kernel, _ in kernels)
    lines = [
        f"{kernel.ms:.3g} ms ({kernel.ms / whole if whole else 0:.0%}), {kernel.launches} x "
        f"{kernel.name[:NAME]}{whose}"
        for kernel, whose in kernels
    ]
    kept = sections.first(lines, limit, str)
    left = len(lines) - len(kept)
    return "\n".join([*kept, *([f"({left} shorter left out)"] if left else [])])


def notes(findings: Sequence[Finding]) -> str:
    """Return the notes with their evidence, as many as fit the budget."""
    texts = [note.message + (f"\n{note.evidence}" if note.evidence else "") for note in findings]
    return sections.paragraphs("\n\n".join(texts), sections.NOTES)
