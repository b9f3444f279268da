"""Given answers: the mapping from the files of a folder to the problems they answer."""

import re
from collections.abc import Iterable
from pathlib import Path

from agent.bench.suite import Case
from agent.errors import UsageError

_KERNELBENCH = re.compile(r"kernelbench:(?P<level>[0-9]+)/(?P<number>[0-9]+)")


def found(folder: Path, cases: Iterable[Case], samples: int) -> dict[tuple[str, int], Path]:
    """Map (address, sample) to a file. Raises UsageError if the folder answers none of the problems.

    A problem's answers are called NAME.py, or NAME.K.py for its K-th sample (.md: an answer in Markdown).
    NAME is the address's last part (`softmax`), its last two (`level1_softmax`), or for KernelBench `L_N`.
    The names written by KernelBench's tools are also accepted: `level_L_problem_N_sample_S_kernel.py`, with S
    from 0.
    """
    if not folder.is_dir():
        raise UsageError(f"--candidates {folder}: no such folder")
    there = {file.name: file for file in sorted(folder.iterdir()) if file.is_file()}
    answers = {}
    for case in cases:
        for sample in range(1, samples + 1):
            file = next((there[name] for name in names(case.address, sample) if name in there), None)
            if file is not None:
                answers[case.address, sample] = file
    if not answers:
        first = next(iter(cases), None)
        wanted = (
            f"; {first.address} is looked for as {', '.join(names(first.address, 1)[:3])}" if first else ""
        )
        raise UsageError(f"--candidates {folder}: no file answers a problem of the suite{wanted}")
    return answers


def names(address: str, sample: int) -> tuple[str, ...]:
    """Return the possible names of the file that answers a sample."""
    stems = []
    if match := _KERNELBENCH.fullmatch(address):
        level, number = match["level"], match["number"]
        stems.append(f"{level}_{number}")
        own = f"level_{level}_problem_{number}_sample_{sample - 1}_kernel.py"
    else:
        parts = Path(address).with_suffix("").parts if address.endswith(".py") else tuple(address.split("/"))
        stems += ["_".join(parts[-2:]), parts[-1]]
        own = ""
    numbered = [f"{stem}.{sample}{end}" for stem in stems for end in (".py", ".md")]
    plain = [f"{stem}{end}" for stem in stems for end in (".py", ".md")] if sample == 1 else []
    return (*numbered, *plain, *([own] if own else []))
