"""The page on what was measured on a GPU: what is recorded, and nothing that has no verdict."""

import json

from benchmarks import gpu_report

ENTRIES = json.loads(gpu_report.DOCUMENT.read_text())["results"]


def test_the_page_is_what_the_records_give() -> None:
    assert gpu_report.PAGE.read_text() == gpu_report.render(ENTRIES), (
        "docs/gpu-report.md is out of date: python -m benchmarks.gpu_report"
    )


def test_only_what_was_judged_counts() -> None:
    verdict = {"status": "verified", "finding": "", "shapes": "shrunken", "protocol": "quick"}
    times = {"times": {"composed": 1.0, "eager": 4.0, "compile": 2.0}, "gpu": "H200, 1", "date": "today"}
    entries = [
        {"id": "level1/5", "emulator": {"said": verdict, "code": "a"}, "times": {"said": times, "code": "b"}},
        {"id": "level1/10", "times": {"said": times, "code": "b"}},
        {"id": "level1/15", "emulator": {"said": {**verdict, "status": "incorrect"}}},
        {"id": "level1/6", "emulator": {"said": verdict}, "times": {"said": times}},
    ]
    found = {one.address: one for one in gpu_report.composed(entries)}
    assert len(found) == 40
    assert "level1/6" not in found
    assert found["level1/5"].speedup() == 2.0
    assert found["level1/10"].speedup() is None
    assert (found["level1/10"].ending, found["level1/15"].ending) == ("open", "unsolved")
    whole = gpu_report.summed("some", list(found.values())).whole
    best = next(speeds for speeds in whole.speeds if speeds.baseline == "best")
    assert best.fast["1.0"].value == 1 / 40
    assert "1 were timed and never judged" in gpu_report.limits(entries, list(found.values()))


def test_a_gpus_verdict_counts_where_there_is_one() -> None:
    small = {"status": "verified", "finding": "", "shapes": "shrunken", "protocol": "quick"}
    wrong, fault = {**small, "status": "incorrect", "shapes": "full"}, {**small, "status": "fault"}
    entries = [
        {"id": "level1/5", "emulator": {"said": small}, "cuda": {"said": wrong}},
        {"id": "level1/10", "emulator": {"said": small}, "cuda": {"said": fault}},
    ]
    found = {one.address: one.ending for one in gpu_report.composed(entries)}
    assert (found["level1/5"], found["level1/10"]) == ("unsolved", "verified")


def test_a_shipped_kernels_time_is_one_at_the_references_size() -> None:
    found = {one.address: one for one in gpu_report.shipped()}
    assert found["level1/softmax"].times_ms.keys() == {"kernel", "eager", "compile"}
    assert found["level1/matmul"].verified
    assert not found["level1/matmul"].times_ms
