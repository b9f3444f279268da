"""The tables of the corpus: enough kernels, each its own, and no hole in the construct x finding matrix."""

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

CORPUS = Path(__file__).parent / "corpus"
BROKEN: dict[str, dict[str, dict[str, Any]]] = tomllib.loads((CORPUS / "broken.toml").read_text())
MATRIX: dict[str, Any] = tomllib.loads((CORPUS / "matrix.toml").read_text())
KERNELS = [expected for kernels in BROKEN.values() for expected in kernels.values()]
SENSELESS = [
    (construct, finding)
    for group in MATRIX["senseless"]
    for construct in group["constructs"]
    for finding in group["findings"]
]
# A kernel's head and body, up to the brace in the first column or at the end of the same line.
_KERNEL = re.compile(r"__global__[^;{]*?(\w+)\((?:[^;{]*)\)\s*\{(.*?(?:\}$|^\}))", re.M | re.S)


def sources() -> list[Path]:
    return sorted([*(CORPUS / "correct").glob("*.py"), *(CORPUS / "broken").glob("*.cu")])


def bodies() -> list[tuple[str, str]]:
    """Name and body of every kernel, blanks and names of variables aside."""
    found = []
    for path in sources():
        for name, body in _KERNEL.findall(path.read_text()):
            code = re.sub(r"//.*", "", body)
            found.append((f"{path.stem}.{name}", re.sub(r"\s+", "", code)))
    return found


def test_there_are_as_many_kernels_as_promised() -> None:
    counted = Counter(path.suffix for path in sources() for _ in _KERNEL.findall(path.read_text()))
    assert counted[".py"] >= 30
    assert len(KERNELS) >= 40


def test_no_two_kernels_share_a_body() -> None:
    owners: dict[str, list[str]] = {}
    for name, body in bodies():
        owners.setdefault(body, []).append(name)
    assert [names for names in owners.values() if len(names) > 1] == []


@pytest.mark.parametrize("finding", MATRIX["findings"])
def test_every_construct_meets_the_finding(finding: str) -> None:
    met = {c for kernel in KERNELS if kernel["finding"] == finding for c in kernel["constructs"]}
    senseless = {construct for construct, other in SENSELESS if other == finding}
    assert met == set(MATRIX["constructs"]) - senseless


def test_the_matrix_names_what_the_tables_use() -> None:
    assert {kernel["finding"] for kernel in KERNELS} == set(MATRIX["findings"])
    assert all(set(kernel["constructs"]) <= set(MATRIX["constructs"]) for kernel in KERNELS)
    assert {construct for construct, _ in SENSELESS} <= set(MATRIX["constructs"])
    assert {finding for _, finding in SENSELESS} <= set(MATRIX["findings"])
    assert all(len(group["why"]) > 20 for group in MATRIX["senseless"])
    repeated = [cell for cell, times in Counter(SENSELESS).items() if times > 1]
    assert repeated == []


@pytest.mark.parametrize("source", sorted(BROKEN))
def test_the_table_and_the_source_agree(source: str) -> None:
    text = (CORPUS / "broken" / f"{source}.cu").read_text()
    assert re.findall(r"^torch::Tensor (\w+)\(", text, re.M) == list(BROKEN[source])
    for name, expected in BROKEN[source].items():
        marks = len(re.findall(rf"// here: {name}$", text, re.M))
        assert marks == expected.get("at_line", True), name
        assert expected["words"], f"{name}: no words of its message are expected"
