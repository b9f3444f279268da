"""docs/reference says what the code says."""

import re

from test_finding_kinds import PACKAGE, survey

from agent.config import KernelSettings, Settings
from docs.reference import command_names, kinds, stale_pages

NO_FINDINGS = {
    "any-rank", "built-in-worker", "compile-safe", "compute-sanitizer", "content-type", "emulator-full",
    "emulator-ptx", "emulator-slim", "gemm-conv", "gpu-slim", "hf-kernels", "kernels-sweep", "latin-1",
    "max-autotune",
    "max-autotune-no-cudagraphs", "nsight-compute", "nvidia-smi", "retry-after", "retry-after-ms",
    "torch-library", "utf-16", "utf-8", "utf-8-sig", "x-request-id", "x-should-retry",
}  # fmt: skip
"""Strings spelled like a kind where a kind could begin, which are something else."""


def test_the_pages_are_what_the_code_says() -> None:
    assert stale_pages() == [], "write them again: python -m tests.docs.reference"


def test_every_kind_of_finding_has_a_cause_and_a_fix() -> None:
    _, _, made = survey(PACKAGE, "agent")
    listed = [kind for found in kinds().values() for kind in found]
    spelled = {kind for kind in made if re.fullmatch(r"[a-z]+(-[a-z0-9]+)+", kind)}
    assert sorted(listed) == sorted(set(listed))
    assert set(listed) - made == set()
    assert spelled - set(listed) - NO_FINDINGS == set()
    # A cause and a fix are two sentences.
    assert [kind for found in kinds().values() for kind in found if found[kind].count(".") < 2] == []


def test_every_setting_is_described() -> None:
    fields = {**Settings.model_fields, **KernelSettings.model_fields}
    assert [name for name, field in fields.items() if not (field.description or "").endswith(".")] == []


def test_the_commands_of_groups_are_listed() -> None:
    assert {("run",), ("kernels", "list"), ("kernels", "promote")} <= set(command_names())
