"""What Python packs for a kernel's launcher is what its C struct declares: fields, order, types, numbers.

The files of a kernel are listed by hash in its kernel.json, so that nothing is generated into them: each call
is recorded instead, and read by the declaration of csrc.
"""

import re
from pathlib import Path

import pytest
import torch
from kernels.launch_cases import (
    ANY,
    CASES,
    CONV_INTERFACE,
    GROUP_NORM,
    KERNELS,
    LINEAR,
    SHARED,
    Values,
    gelu,
)  # fmt: skip

from agent.contracts.declarations import Header, Parameter, Struct, without_comments
from agent.kernels import routing, sources
from agent.kernels.gate_product import operator as gate_product
from agent.kernels.group_norm import activation, layout
from agent.kernels.linear_fp32x3 import product
from agent.kernels.masked_softmax import operator as masked_softmax
from agent.kernels.reduction import operator as reduction

STREAM = 7_777


class Recorder:
    """In the place of a loaded library."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, tuple[float, ...]]] = []

    def launch(self, function: str, fields: str, *values: float) -> None:
        self.calls.append((function, fields, values))

    def ask(self, function: str, fields: str, *values: float) -> int:
        self.calls.append((function, fields, values))
        return 512

    def remembered(self, alike: object, function: str, fields: str, *values: float) -> int:
        return self.ask(function, fields, *values)


def struct_of(source: Path, name: str, folder: Path) -> Struct:
    """As the reader of the emulator's headers reads it; the device code around it is left out."""
    text = without_comments(source.read_text(encoding="utf-8"))
    [body] = re.findall(rf"\bstruct {name} (\{{[^{{}}]*\}});", text)
    alone = folder / f"{name}.h"
    alone.write_text(f"struct {name} {body};\n")
    [found] = Header(alone).structs
    return found


def enum_of(source: Path, name: str, folder: Path) -> dict[str, int]:
    text = without_comments(source.read_text(encoding="utf-8"))
    [declared] = re.findall(rf"\benum {name}\b[^{{}};]*\{{[^{{}}]*\}};", text)
    alone = folder / f"{name}.h"
    alone.write_text(f"{declared}\n")
    [found] = Header(alone).enums
    return {value.removeprefix("k").lower(): number for value, number in found.values.items()}


def letters(struct: Struct) -> str:
    """Of `struct.pack`, one for each field; KeyError for what does not take 8 bytes."""
    taken = {"int64_t": "q", "double": "d", "cudaStream_t": "q"}
    found = ""
    for field in struct.fields:
        assert isinstance(field, Parameter), field
        assert field.length is None, field
        found += "q" if field.type.endswith("*") else taken[field.type]
    return found


def differences(struct: Struct, fields: str, values: tuple[float, ...], expected: Values) -> list[str]:
    """Where the packed values are not those that the struct's fields have to hold."""
    packed = re.sub(r"(\d+)(\w)", lambda match: int(match[1]) * match[2], fields)
    found = [] if packed == letters(struct) else [f"packed as {packed}, declared as {letters(struct)}"]
    names = [field.name for field in struct.fields]
    if set(names) != expected.keys() or len(names) != len(values):
        return [*found, f"{len(values)} values for {names}"]
    for name, value in zip(names, values, strict=True):
        if expected[name] is not ANY and value != expected[name]:
            found.append(f"{name} is {value} and not {expected[name]}")
    return found


def exports(kernel: str) -> tuple[set[str], dict[str, str]]:
    """The launchers of a library, and of each of its functions the struct that it takes."""
    text = (KERNELS / kernel / "csrc/library.cu").read_text(encoding="utf-8")
    found = re.findall(r"^KW_(LAUNCHER|QUESTION)\(\w+, (\w+), (\w+)\)$", text, re.M)
    launchers = {function for kind, function, _ in found if kind == "LAUNCHER"}
    return launchers, {function: struct for _, function, struct in found}


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    found = Recorder()
    monkeypatch.setattr(routing, "library", lambda kernel, device: found)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: STREAM, raising=False)
    return found


def test_every_shipped_kernel_is_compared() -> None:
    assert CASES.keys() == {path.parent.parent.name for path in KERNELS.glob("*/csrc/library.cu")}


@pytest.mark.parametrize("kernel", CASES)
def test_calls_are_packed_as_declared(kernel: str, recorder: Recorder, tmp_path: Path) -> None:
    launchers, taken = exports(kernel)
    expected = CASES[kernel].calls()
    called = {function for function, _, _ in recorder.calls}
    assert launchers <= called == expected.keys()
    for function, fields, values in recorder.calls:
        struct = struct_of(*CASES[kernel].structs[taken[function]], tmp_path)
        wanted = expected[function] | {"stream": STREAM, "device": ANY}
        assert differences(struct, fields, values, wanted) == [], function


def test_a_kernel_with_a_library_for_each_dtype_calls_the_one_of_its_elements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {dtype: Recorder() for dtype in routing.DTYPES}
    monkeypatch.setattr(routing, "_loaded", lambda kernel, device, dtype: found[dtype])
    for kernel, places in sources.APART.items():
        _, taken = exports(kernel)
        for function, struct in taken.items():
            place = places[function.partition("_")[0]]
            fields = struct_of(*CASES[kernel].structs[struct], tmp_path).fields
            assert [field.name for field in fields].index("dtype") == place
            for dtype, number in routing.DTYPES.items():
                values = [number if at == place else 0 for at in range(len(fields))]
                library = routing.library(kernel, 0)
                (library.ask if "_" in function else library.launch)(function, "", *values)
                assert found[dtype].calls.pop()[0] == function
                assert not any(one.calls for one in found.values())


GELU = "struct Forward { const void* x; void* y; int64_t count; int64_t tanh; int64_t dtype; "
GELU_END = "cudaStream_t stream; int64_t device; };"


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        (GELU.replace("int64_t count; int64_t tanh", "int64_t tanh; int64_t count"), "tanh is 15"),
        (GELU.replace("const void* x; void* y", "void* y; const void* x"), "y is "),
        (GELU.replace("int64_t tanh", "double tanh"), "packed as qqqqqqq, declared as qqqdqqq"),
        (GELU.replace("int64_t tanh;", ""), "7 values for"),
        (GELU + "int64_t more; ", "7 values for"),
        (GELU.replace("count", "elements"), "7 values for"),
    ],
)
def test_a_struct_that_differs_is_seen(declared: str, told: str, recorder: Recorder, tmp_path: Path) -> None:
    source = tmp_path / "launch.cuh"
    source.write_text(GELU + GELU_END)
    expected = gelu()["forward"] | {"stream": STREAM, "device": ANY}
    _, fields, values = next(call for call in recorder.calls if call[0] == "forward")
    assert differences(struct_of(source, "Forward", tmp_path), fields, values, expected) == []
    source.write_text(declared + GELU_END)
    found = differences(struct_of(source, "Forward", tmp_path), fields, values, expected)
    assert any(told in line for line in found), found


def test_a_field_that_does_not_take_8_bytes_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "launch.cuh"
    source.write_text("struct Forward { int32_t count; };")
    with pytest.raises(KeyError, match="int32_t"):
        letters(struct_of(source, "Forward", tmp_path))


def test_numbers_are_those_of_the_enums(tmp_path: Path) -> None:
    dtypes = {str(dtype).removeprefix("torch."): number for dtype, number in routing.DTYPES.items()}
    assert enum_of(SHARED / "element.cuh", "Dtype", tmp_path) == dtypes
    assert enum_of(GROUP_NORM, "Dtype", tmp_path) == dtypes
    assert enum_of(GROUP_NORM, "Act", tmp_path) == activation.NUMBERS
    gate = KERNELS / "gate_product/csrc/launch.cuh"
    assert enum_of(gate, "Act", tmp_path) == gate_product.ACTS
    masks = KERNELS / "masked_softmax/csrc/launch.cuh"
    kinds = {"none": masked_softmax.NONE, "named": masked_softmax.NAMED, "added": masked_softmax.ADDED}
    assert enum_of(masks, "Mask", tmp_path) == kinds
    kinds = {kind: number for kind, number in reduction.KINDS.items() if kind != "mean"}
    assert enum_of(KERNELS / "reduction/csrc/backward.cuh", "Kind", tmp_path) == kinds
    layouts = {"contiguous": layout.CONTIGUOUS, "channelslast": layout.CHANNELS_LAST}
    assert enum_of(GROUP_NORM, "Layout", tmp_path) == layouts
    assert enum_of(LINEAR, "Precision", tmp_path) == product.PRECISIONS
    for source in (GROUP_NORM, CONV_INTERFACE):
        assert enum_of(source, "Path", tmp_path)["auto"] == 0  # what the operators ask for


def test_an_enum_that_differs_is_seen(tmp_path: Path) -> None:
    source = tmp_path / "interface.h"
    text = GROUP_NORM.read_text(encoding="utf-8")
    source.write_text(text.replace("kSilu = 1, kGelu = 2", "kSilu = 2, kGelu = 1"))
    assert source.read_text() != text
    assert enum_of(source, "Act", tmp_path) != activation.NUMBERS
