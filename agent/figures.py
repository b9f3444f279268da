"""What was measured and counted, in the words of a prompt: short lines, cut to the budgets of `sections`.

Decides nothing and looks nothing up: numbers that are unknown are left out.
"""

from collections.abc import Sequence

from agent import sections
from agent.problems.gpu_cards import Card
from agent.records import Finding, KernelResources, KernelTime, Profile

NAME = 90
"""Characters of a kernel's name that are shown."""


def quantity(value: int, unit: str) -> str:
    """Three significant digits with a decimal prefix: 7516192768 B is `7.52 GB`."""
    scaled = float(value)
    for prefix in ("", "k", "M", "G"):
        if scaled < 999.5:
            return f"{scaled:.3g} {prefix}{unit}"
        scaled /= 1000
    return f"{scaled:.3g} T{unit}" if scaled < 999.5 else f"{scaled:.0f} T{unit}"


def resources(kernel: KernelResources, card: Card | None = None) -> str:
    """What ptxas said about a kernel, unknown numbers left out, and how many warps its registers allow."""
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
    """What took the time of one call, longest first, and what is left out."""
    return _times(
        [(kernel, "" if kernel.own else " (not yours)") for kernel in profile.kernels], sections.LAUNCHES
    )


def rivals(kernels: Sequence[KernelTime]) -> str:
    """What another program launches for the same, longest first, and what is left out."""
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
    """Each note with the figures behind it, as far as they fit."""
    texts = [note.message + (f"\n{note.evidence}" if note.evidence else "") for note in findings]
    return sections.paragraphs("\n\n".join(texts), sections.NOTES)
