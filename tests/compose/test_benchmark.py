"""The composer's benchmark on a checkout: which problems, what is kept, and the page."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from foreign import documents

sys.path.append(str(Path(__file__).parents[2]))
command, cases, page, waves, batch = (
    importlib.import_module(f"benchmarks.composer.{name}")
    for name in ("__main__", "cases", "page", "waves", "batch")
)

REFERENCE = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return {}
def get_inputs():
    return [torch.randn(8, 16)]
def get_init_inputs():
    return []
"""


def checkout(folder: Path) -> Path:
    for level in (1, 2, 3):
        place = folder / "KernelBench" / f"level{level}"
        place.mkdir(parents=True)
        for number in range(1, 11):
            forward = "torch.fft.rfft(x).abs()" if number == 10 else "torch.relu(x) + 1"
            (place / f"{number}_reference.py").write_text(REFERENCE.format(forward))
    return folder


def test_the_rule_takes_every_fifth_problem_and_all_of_level_3(tmp_path: Path) -> None:
    root = checkout(tmp_path / "checkout")
    ids = [case.id for case in cases.chosen(root, tmp_path / "work", [])]
    assert ids == ["level1/5", "level1/10", "level2/5", "level2/10", *(f"level3/{n}" for n in range(1, 11))]
    assert [case.id for case in cases.chosen(root, tmp_path / "work", ["2/3"])] == ["level2/3"]


def test_what_is_composed_is_kept_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root, out = checkout(tmp_path / "checkout"), tmp_path / "out.json"
    given = ["compose", "--root", str(root), "--work", str(tmp_path / "work"), "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["composer", *given, "--only", "1/5", "1/10"])
    assert command.main() == 0
    found = documents.read(out)
    assert found["level1/5"]["composed"]["said"] == ""
    assert "_fft_r2c" in found["level1/10"]["composed"]["said"]
    assert "level1/10" in capsys.readouterr().out
    assert "def " not in out.read_text()
    [case] = cases.chosen(root, tmp_path / "work", ["1/5"])
    assert "class ModelNew" in case.file.read_text()
    assert command.Book(out, None).has(case, "composed")
    assert not command.Book(out, None).has(case, "cuda")
    book = command.Book(out, None)
    for said, is_there, with_tuning in (
        ({"times": {"eager": 1.0}, "notes": {}, "error": 0.0}, True, False),
        ({"times": {"eager": 1.0, "max-autotune": 2.0}, "notes": {}, "error": 0.0}, True, True),
        ({"status": "fault", "finding": "out of memory"}, False, False),
    ):
        book.keep(case.about() | {"times": said}, "times")
        assert book.has(case, "times") == is_there
        assert book.has(case, "times", tuned=True) == with_tuning
    assert list(waves.waves([case, case, case], 2, 1e12)) == [[case, case], [case]]


def test_a_sitting_shares_the_problems_among_the_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = []

    def step(share: Any, what: list[str], names: list[str], given: Any, until: float) -> None:
        steps.append((share.gpu, what[0], "--max-autotune" in what, names))
        verdict = {"status": "verified", "finding": "", "protocol": "quick"}
        entries = [{"id": f"level{name}", "digest": "", "cuda": {"said": verdict}} for name in share.names]
        documents.write(share.document, entries)
        share.document.with_name("level1-5.kernels.json").write_text('{"eager": []}')

    monkeypatch.setattr(batch.Share, "step", step)
    monkeypatch.setattr(batch, "LOOKED_AT_S", 0.01)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    out = tmp_path / "out"
    monkeypatch.setattr(
        "sys.argv", ["batch", "--root", "checkout", "--out", str(out), "--only", "1/5", "1/10", "2/5"]
    )
    assert batch.main() == 0
    assert set(documents.read(out / "kernelbench.json")) == {"level1/5", "level1/10", "level2/5"}
    assert "eager" in (out / "kernels.json").read_text()
    assert "| level2/5 | yes |  | verified, quick* |" in capsys.readouterr().out
    own = [names for gpu, *_, names in steps if gpu == "2"]
    assert own == [["2/5"], ["1/5"], ["1/5", "2/5"], ["2/5"]]
    assert [(what, tuned) for gpu, what, tuned, _ in steps if gpu == "3"] == [
        ("time", False), ("time", True), ("judge", False), ("time", True),
    ]  # fmt: skip


def test_the_page_is_rendered_from_the_document() -> None:
    entries, own = (list(documents.read(path).values()) for path in command.DOCUMENTS.values())
    assert page.PAGE.read_text(encoding="utf-8") == page.render(entries, own)
    assert page.PLOT.read_text(encoding="utf-8") == page.plot(entries)


def test_files_in_which_no_product_is_torchs_have_a_document_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, asked = checkout(tmp_path / "checkout"), list[bool]()

    def compose(problem: Any, arch: str | None, own_products: bool) -> str:
        asked.append(own_products)
        return "a file"

    monkeypatch.setattr(cases.agent.compose, "compose", compose)
    for library_ops in ("gemm-conv", "none"):
        [case] = cases.chosen(root, tmp_path / "work", ["1/5"], None, library_ops)
        assert cases.composed(case) == ""
    assert asked == [False, True]
    said = {"status": "verified", "protocol": "quick", "unexercised": ["wide"], "date": "2026-11-26"}
    entry = {"id": "level1/5", "composed": {"code": "a", "said": ""}, "emulator": {"code": "a", "said": said}}
    text = page.render([], [entry])
    assert "| level1 | 1 | 1 | 1 of 1 judged |" in text
    assert "| level1/5 | yes | verified, quick | wide | 2026-11-26 |" in text


def test_a_ratio_is_held_against_the_best_of_torch() -> None:
    times = {"composed": 2.0, "eager": 8.0, "compile": 3.0, "max-autotune": 4.0}
    entry = {"id": "level1/1", "times": {"code": "a", "said": {"times": times, "notes": {}, "error": 0.0}}}
    assert page.ratio(entry) == 1.5
    assert page.ratio({"id": "level1/2", "times": {"said": {"failed": "RuntimeError: none"}}}) is None
    assert page.geometric_mean([0.5, 2.0, 8.0]) == pytest.approx(2.0)
    later = entry | {"composed": {"code": "b", "said": ""}}
    assert "| level1/1 | yes |  |  | 2.000 | 8.000 | 3.000 | 4.000 |  | 1.50* |" in page.render([later])


def test_what_was_found_holds_for_the_same_file_of_a_later_composer() -> None:
    said = {"status": "verified", "protocol": "quick"}
    judged = {"id": "level2/1", "emulator": {"code": "a", "text": "f", "said": said}}
    same = judged | {"composed": {"code": "b", "text": "f", "said": ""}}
    other = judged | {"composed": {"code": "b", "text": "g", "said": ""}}
    assert "| verified, quick |" in page.render([same])
    assert "| verified, quick* |" in page.render([other])


def test_a_file_that_came_out_the_same_is_not_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, out = checkout(tmp_path / "checkout"), tmp_path / "out.json"
    [case] = cases.chosen(root, tmp_path / "work", ["1/5"])
    case.file.write_text("a file")
    book = command.Book(out, None)
    book.keep(case.about() | {"emulator": {"status": "verified"}}, "emulator")
    monkeypatch.setattr(cases, "code", lambda: "later")
    assert not book.has(case, "emulator")
    case.file.write_text("a file")
    assert book.has(case, "emulator")
    case.file.write_text("another file")
    assert not book.has(case, "emulator")
