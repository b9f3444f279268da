"""What has come of a bench, read from its runs, and the figures made of it."""

import csv
import io
import json
from pathlib import Path

import pytest

from agent import bench as benches
from agent.bench import faults, page
from agent.bench.compare import compare
from agent.bench.report import Report, report
from agent.errors import UsageError
from agent.records import Status
from bench import made

FIRST, SECOND, THIRD, FOURTH = "one/a", "one/b", "two/c", "two/d"


@pytest.fixture
def bench(tmp_path: Path) -> benches.Bench:
    """Two of four problems solved, one of them in both runs; one refused, one never begun."""
    found = made.bench(tmp_path, (FIRST, SECOND, THIRD, FOURTH), samples=2)
    fast, slow = made.measured(1.0, 4.0, 2.0), made.measured(1.0, 0.5)
    made.run(found, f"{FIRST}#1", [made.wrong(), made.verified(fast)], tokens=100)
    made.run(found, f"{FIRST}#2", [made.verified(slow)], tokens=50)
    made.run(found, f"{SECOND}#1", [made.verified(None)])
    made.run(found, f"{SECOND}#2", [made.wrong("index-swapped")])
    faults.note(found.path, faults.Fault(label=f"{THIRD}#1", ending="refused", reason="no Model"))
    made.run(found, f"{THIRD}#2", [made.wrong()], outcome="open")
    return found


def test_what_has_come_of_each_task(bench: benches.Bench) -> None:
    found = {one.label: one for one in benches.outcomes(bench)}
    assert list(found)[:4] == [f"{FIRST}#1", f"{SECOND}#1", f"{THIRD}#1", f"{FOURTH}#1"]
    assert {label: one.ending for label, one in found.items()} == {
        f"{FIRST}#1": "verified", f"{FIRST}#2": "verified", f"{SECOND}#1": "verified",
        f"{SECOND}#2": "unsolved", f"{THIRD}#1": "refused", f"{THIRD}#2": "unfinished",
        f"{FOURTH}#1": "open", f"{FOURTH}#2": "open",
    }  # fmt: skip
    first = found[f"{FIRST}#1"]
    assert first.first is Status.INCORRECT
    assert first.statuses == {"incorrect": 1, "verified": 1}
    assert (first.speedup(), first.speedup("eager"), first.speedup("compile")) == (2.0, 4.0, 2.0)
    assert first.tokens == 200
    assert found[f"{SECOND}#1"].speedup() is None
    assert found[f"{SECOND}#2"].reason == "incorrect: index-swapped"
    assert found[f"{THIRD}#1"].reason == "no Model"


def test_the_figures(bench: benches.Bench) -> None:
    found = report(bench)
    assert [group.name for group in found.groups] == ["one", "two", "all"]
    whole = found.whole
    assert (whole.problems, whole.samples, whole.verified) == (4, 8, 3)
    assert whole.solved is not None
    assert whole.solved.value == 0.5
    assert whole.pass_at["1"].value == pytest.approx((1 + 0.5 + 0) / 3), "of three with a run that is over"
    assert whole.pass_at["2"].value == pytest.approx((1 + 1) / 2)
    assert whole.first_answer is not None
    assert whole.first_answer.value == pytest.approx(2 / 5)
    best = next(speeds for speeds in whole.speeds if speeds.baseline == "best")
    assert best.geometric_mean.value == pytest.approx((2.0 * 0.5) ** 0.5)
    assert best.fast["1.0"].value == pytest.approx(0.5 / 4)
    assert whole.spending.tokens == 250
    assert whole.spending.per_verified["tokens"] == pytest.approx(250 / 3)
    assert whole.spending.per_faster["tokens"] == 250
    assert whole.spending.gpu_hours == pytest.approx(4 * 36 / 3600)
    assert whole.causes["incorrect: index-swapped"] == 1


def test_every_form_says_every_task(bench: benches.Bench) -> None:
    found = report(bench)
    assert Report.model_validate_json(found.model_dump_json()) == found
    rows = list(csv.DictReader(io.StringIO(page.table(found))))
    assert [row["ending"] for row in rows] == [one.ending for one in found.outcomes]
    assert rows[0]["speedup_best"] == "2.0"
    text, whole = page.markdown(found), page.html(found)
    for address in (FIRST, SECOND, THIRD, FOURTH):
        assert text.count(address) == 2
        assert address in whole
    assert "<script" not in whole
    assert "http" not in whole.replace("http-equiv", "")


def test_what_others_wrote_stays_text(tmp_path: Path) -> None:
    bad = "=cmd|'/c calc'!A0 <script>alert(1)</script> | x"
    bench = made.bench(tmp_path, (FIRST,))
    faults.note(bench.path, faults.Fault(label=f"{FIRST}#1", ending="failed", reason=bad))
    found = report(bench)
    assert "<script" not in page.html(found)
    assert "<script" not in page.markdown(found)
    lines = page.markdown(found).splitlines()
    (number,) = (number for number, line in enumerate(lines) if line.startswith(f"| {FIRST} "))
    assert lines[number].count("|") == lines[number - 1].count("|"), "as many cells as below the heads"
    row = next(csv.DictReader(io.StringIO(page.table(found))))
    assert row["reason"].startswith("'=")


def test_a_line_of_faults_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    bench = made.bench(tmp_path, (FIRST,))
    faults.note(bench.path, faults.Fault(label=f"{FIRST}#1", ending="failed", reason="no disk"))
    with (bench.path / faults.FILE).open("a") as file:
        file.write('{"label": "one/a#1", "end')
    assert [one.reason for one in benches.outcomes(bench)] == ["no disk"]


def test_the_later_run_of_a_label_counts_and_a_damaged_bench_is_said(tmp_path: Path) -> None:
    bench = made.bench(tmp_path, (FIRST,))
    made.run(bench, f"{FIRST}#1", [made.wrong()])
    assert benches.open_bench(bench.id[:-2], tmp_path).path == bench.path.resolve()
    with pytest.raises(UsageError, match="there are: bench-"):
        benches.open_bench("other", tmp_path)
    (bench.path / "bench.json").write_text(json.dumps({"version": 1}))
    with pytest.raises(UsageError, match="bench.json is damaged"):
        _ = bench.info


def test_two_benches_differ_by_more_than_noise_or_do_not(tmp_path: Path) -> None:
    names = [f"one/{k}" for k in range(8)]
    a, b, c = (made.bench(tmp_path / name, names) for name in "abc")
    for bench, speed in ((a, 2.0), (b, 1.0), (c, 2.0)):
        for k, name in enumerate(names[:7]):
            made.run(bench, f"{name}#1", [made.verified(made.measured(speed * (1 + k / 100), 4.0))])
    made.run(a, f"{names[7]}#1", [made.wrong()])
    made.run(b, f"{names[7]}#1", [made.verified(None)])
    made.run(c, f"{names[7]}#1", [made.wrong()])
    found = compare(report(a), report(b))
    assert found.only_b == (names[7],)
    assert found.only_a == ()
    assert found.solved_p == 1.0, "one against none is nothing"
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(2.0)
    assert found.differs
    assert all(change.beyond_noise for change in found.changes)
    same = compare(report(a), report(c))
    assert not same.differs
    assert "within noise" in page.comparison(same, "a", "c")
    with pytest.raises(UsageError, match="no problem in common"):
        compare(report(a), report(made.bench(tmp_path / "d", ["other/x"])))


def test_one_cause_of_many_problems_is_one_line(tmp_path: Path) -> None:
    bench = made.bench(tmp_path, ("one/a", "one/b", "one/c"))
    why = "it is products alone, which stay torch's; to ask a model, set OPENAI_API_KEY"
    for name in ("a", "b"):
        said = f"no kernel was composed for one/{name}: {why}"
        faults.note(bench.path, faults.Fault(label=f"one/{name}#1", ending="unsolved", reason=said))
    assert report(bench).whole.causes == {
        "no kernel was composed: it is products alone, which stay torch's": 2
    }
