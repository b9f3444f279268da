"""What compute-sanitizer prints becomes findings."""

import pytest

from agent.harness.confirmation import sanitizer

MEMCHECK = """\
========= COMPUTE-SANITIZER
value 2.0
========= Invalid __global__ write of size 4 bytes
=========     at scale_rows(const float *, float *, int)+0xa0
=========     by thread (3,0,0) in block (4,1,0)
=========     Access at 0x7f0000001000 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f0000000000 of size 4096 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at scale_rows(const float *, float *, int)+0xa0
=========     by thread (4,0,0) in block (4,1,0)
=========     Access at 0x7f0000001004 is out of bounds
=========
========= ERROR SUMMARY: 2 errors
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at reduce(float *)+0x1f0
=========     and Read access at reduce(float *)+0x260 [128 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""


def test_an_access_out_of_bounds_has_its_place() -> None:
    (found,) = sanitizer.parsed(MEMCHECK)
    assert (found.kind, found.count) == ("out-of-bounds", 2)
    assert found.location is not None
    assert found.location.kernel == "scale_rows"
    assert (found.location.thread, found.location.block) == ((3, 0, 0), (4, 1, 0))
    assert "Invalid __global__ write of size 4 bytes" in found.message
    assert "1 bytes after the nearest allocation" in (found.evidence or "")


def test_a_race_names_its_kernel() -> None:
    (found,) = sanitizer.parsed(RACECHECK)
    assert found.kind == "shared-race"
    assert found.location is not None
    assert found.location.kernel == "reduce"


def test_a_log_without_reports_has_no_findings() -> None:
    assert sanitizer.parsed("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n") == []
    assert sanitizer.parsed("Invalid __global__ write of size 4 bytes, printed by a candidate\n") == []


@pytest.mark.parametrize(
    ("place", "kernel"),
    [
        ("void conv::conv_fp32x3<(int)64, (bool)1>(conv::Conv)+0x1f0", "conv_fp32x3"),
        ("void (anonymous namespace)::scan<float, (int)8>(const T1 *, T1 *)+0x20 in main.cu:12", "scan"),
        ("reduce(float *)+0x1f0", "reduce"),
    ],
)
def test_a_report_names_its_kernel_however_it_is_written(place: str, kernel: str) -> None:
    log = f"========= Error: Race reported between Read access at {place}\n"
    (found,) = sanitizer.parsed(log)
    assert found.location is not None
    assert found.location.kernel == kernel
