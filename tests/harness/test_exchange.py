"""What comes back as files is the candidate's process's to write, or not to."""

from pathlib import Path

import pytest
import torch

from agent.harness import wire
from agent.harness.exchange import Files

CLAIMS = {"sent_back": "after"}


def changed(folder: Path, x: torch.Tensor) -> list[str]:
    return list(Files(folder).changed([x], [], {}, CLAIMS, set()))


def test_other_bytes_are_a_change(tmp_path: Path) -> None:
    x = torch.randn(3, 5)
    for returned, found in ((x, []), (x + 1, ["input"]), (x[:2], ["input"])):
        wire.dump([returned], tmp_path, "after-input")
        assert changed(tmp_path, x) == found


def test_a_file_that_does_not_come_back_is_a_breach_and_no_fault_of_the_judge(tmp_path: Path) -> None:
    with pytest.raises(wire.WireError, match="missing"):
        changed(tmp_path, torch.randn(3, 5))
