"""Every fault at the border that has one right mend is mended into a candidate that builds."""

from pathlib import Path

import pytest
from mend import attempts, candidates

from agent import mend
from agent.build.toolchain import Toolchain
from agent.emulator.compile import toolchain as toolchain_module
from agent.records import Finding


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    return toolchain_module.prepare()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("builds")


def repaired(
    source: str, toolchain: Toolchain, cache: Path, patch: pytest.MonkeyPatch
) -> tuple[str, list[str]]:
    """The file after all its mends, and the kinds of the headlines on the way."""
    kinds = []
    for _ in range(mend.MOST_IN_A_ROW + 1):
        found = attempts.findings(source, toolchain, cache, patch)
        if not found:
            break
        kinds.append(found[0].kind)
        made = mend.mended(source, found)
        if made is None:
            return "", kinds
        source = made.source
    return source, kinds


BORDER = {
    "not declared in cpp_sources": ("no declaration", "empty cpp_sources", "cpp_sources is None"),
    "cpp_sources missing": ("no cpp_sources",),
    'extern "C" with types of C++': ('extern "C" on the definition', 'extern "C" around the definition'),
    "signatures where names belong": ("a signature in functions",),
    "a kernel bound to Python": ("a kernel in functions", "a kernel in functions and declared"),
    "shared memory of two types": ("shared memory of two types",),
    "data_ptr of the wrong type": ("data_ptr of __half", "data_ptr of double"),
    "undefined symbol": (
        "declared with int", "declared with int for int64_t", "a static definition",
        "a definition in a namespace",
    ),
    "missing include": ("no include of the stream", "no include of cub"),
    "no ModelNew": ("no ModelNew",),
    "taken name": ("defined in both sources", "a module in cuda_sources", "a module in cpp_sources"),
}  # fmt: skip
"""Every binding fault that feedback names, and how it is made here. Arguments of a wrong number or type, at
the boundary or of the constructor, are not among them: which of the two sides is meant, nobody can tell."""


def test_every_binding_fault_has_a_mend() -> None:
    assert {name for names in BORDER.values() for name in names} <= set(candidates.MENDABLE)


@pytest.mark.parametrize("name", candidates.MENDABLE)
def test_a_fault_is_named_and_mended_into_what_builds(
    name: str, toolchain: Toolchain, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, source = candidates.MENDABLE[name]
    mended, kinds = repaired(source, toolchain, cache, monkeypatch)
    assert kinds[:1] == [kind]
    assert mended
    assert attempts.findings(mended, toolchain, cache, monkeypatch) == ()
    # What is computed stays as it was written.
    assert "y[i] = factor * x[i];" in mended


ELSEWHERE = (
    "no declaration", "no cpp_sources", "a signature in functions", 'extern "C" on the definition',
    "shared memory of two types",
)  # fmt: skip
"""What real models get wrong in a call of load_inline that stands in `__init__`."""


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_build_in_the_constructor_is_mended_alike(
    name: str, toolchain: Toolchain, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, source = candidates.MENDABLE[name]
    mended, kinds = repaired(candidates.inside(source), toolchain, cache, monkeypatch)
    assert kinds == [kind]
    assert attempts.findings(mended, toolchain, cache, monkeypatch) == ()


@pytest.mark.parametrize("name", ["no declaration", "a signature in functions"])
def test_a_build_in_a_helper_is_mended_alike(
    name: str, toolchain: Toolchain, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, source = candidates.MENDABLE[name]
    mended, kinds = repaired(candidates.by_a_helper(source), toolchain, cache, monkeypatch)
    assert kinds == [kind]
    assert attempts.findings(mended, toolchain, cache, monkeypatch) == ()


def test_of_two_calls_the_one_that_failed_is_mended(
    toolchain: Toolchain, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its finding has a line of its own sources."""
    right = candidates.inside(candidates.RIGHT)
    other = candidates.RIGHT[candidates.RIGHT.index("cuda_source") :].partition("\n\n\nclass")[0]
    other = other.replace("scale", "second").replace("extension", "another")
    for name in ("cuda", "cpp"):
        other = other.replace(f"{name}_source =", f"{name}_text =").replace(
            f"={name}_source", f"={name}_text"
        )
    head = candidates.HEAD.replace("scale", "second")
    wrong = other.replace(head, f'extern "C" {head}')
    both = right.replace("class ModelNew", f"{wrong}\n\n\nclass ModelNew")
    mended, kinds = repaired(both, toolchain, cache, monkeypatch)
    assert kinds == ["extern-c"]
    assert mended == right.replace("class ModelNew", f"{other}\n\n\nclass ModelNew")


def test_a_source_made_at_run_time_gets_the_declaration_of_the_finding(
    toolchain: Toolchain, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, source = candidates.MENDABLE["no declaration"]
    made = source.replace("cuda_sources=cuda_source", "cuda_sources=cuda_source.replace('256', '128')")
    mended, kinds = repaired(made, toolchain, cache, monkeypatch)
    assert kinds == ["missing-declaration"]
    assert attempts.findings(mended, toolchain, cache, monkeypatch) == ()


def test_data_is_written_as_data_ptr() -> None:
    """Torch still takes it, as deprecated; one that does not says so in words that are stored."""
    source = candidates.RIGHT.replace("data_ptr<float>", "data<float>")
    made = mend.mended(source, [Finding(kind="deprecated-call", message="`.data<T>()` is gone")])
    assert made is not None
    assert made.source == candidates.RIGHT
    assert mend.mended(candidates.RIGHT, [Finding(kind="deprecated-call", message="it is gone")]) is None


@pytest.mark.parametrize("name", candidates.NOT_MENDABLE)
def test_what_has_no_one_right_mend_is_left_alone(
    name: str, toolchain: Toolchain, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, source = candidates.NOT_MENDABLE[name]
    found = attempts.findings(source, toolchain, cache, monkeypatch)
    assert found[0].kind == kind
    assert mend.mended(source, found) is None
