"""In the candidate's process: a fast build where there is one, else the stock `load_inline`, unchanged."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from torch.utils import cpp_extension

from agent.torch_shim import build_before, extension

CALL: dict[str, Any] = {"name": "t", "cpp_sources": "int f();", "cuda_sources": ["int f() { return 1; }"]}


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    kept = cpp_extension.load_inline
    yield
    cpp_extension.load_inline = kept


class Builds:
    """What was asked of the judge, with the answer it gives, and how often stock had to build."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.asked: list[dict[str, Any]] = []
        self.by_stock: list[dict[str, Any]] = []
        self._answer = answer
        build_before(self.stock, self.build)

    def build(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(request)
        return self._answer

    def stock(
        self, name: str, cpp_sources: object, cuda_sources: object = None, functions: object = None,
        verbose: bool = False, is_python_module: bool = True,
    ) -> ModuleType:  # fmt: skip
        self.by_stock.append({"name": name, "cuda_sources": cuda_sources})
        return ModuleType(name)


def load(**more: object) -> ModuleType:
    made: ModuleType = cpp_extension.load_inline(**CALL | more)  # type: ignore[no-untyped-call]
    return made


def test_without_an_answer_stock_builds_with_the_same_arguments() -> None:
    builds = Builds({})
    assert load(functions="f", verbose=True).__name__ == "t"
    assert builds.by_stock == [{"name": "t", "cuda_sources": CALL["cuda_sources"]}]
    [request] = builds.asked
    assert (request["cpp_sources"], request["functions"]) == (["int f();"], ["f"])


def test_an_error_is_raised_in_the_words_of_torch() -> None:
    builds = Builds({"error": "no such thing"})
    with pytest.raises(RuntimeError, match="Error building extension 't': no such thing"):
        load()
    assert builds.by_stock == []


def test_a_library_that_does_not_load_is_left_to_stock(tmp_path: Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library")
    builds = Builds({"library": str(broken)})
    load()
    assert len(builds.by_stock) == 1


def test_the_same_request_has_one_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch loads one library again: each new instance of a candidate may ask once more."""
    monkeypatch.setattr(extension, "opened", lambda library: None)
    monkeypatch.setattr(extension, "module", lambda name, library: ModuleType(name))
    builds = Builds({"library": str(tmp_path / "made.so")})
    first = load(name="same", functions=["f"])
    assert load(name="same", functions="f") is first
    assert load(name="other", functions=["f"]) is not first
    assert [request["name"] for request in builds.asked] == ["same", "other"]


def test_arguments_that_change_the_build_are_left_to_stock() -> None:
    builds = Builds({"error": "never asked"})
    load(is_python_module=False)
    assert builds.asked == []
    assert len(builds.by_stock) == 1
