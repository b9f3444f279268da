"""Kernels of a single PTX instruction, many per module, run on arrays with one thread per element."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from device_library import Array
from ptx_library import PtxDevice

HEADER = ".version 9.0\n.target sm_90\n.address_size 64\n"
_LOADED = {
    "float32": ("f32", "f32"), "float64": ("f64", "f64"), "int32": ("b32", "b32"), "uint32": ("b32", "b32"),
    "int64": ("b64", "b64"), "uint64": ("b64", "b64"), "int16": ("b16", "b16"), "uint16": ("b16", "b16"),
    "float16": ("b16", "b16"), "int8": ("b16", "s8"), "uint8": ("b16", "u8"),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One case. `body` computes %d from %a, %b, %c; %i is the thread's index."""

    name: str
    body: str
    inputs: tuple[Array, ...]
    expected: Array

    @property
    def id(self) -> str:
        return self.name


def case(body: str, expected: Array, *inputs: Array, name: str = "") -> Case:
    return Case(name or body.split(" ")[0], body, inputs, np.asarray(expected))


def kernel(number: int, case: Case) -> str:
    """Return the PTX of a kernel with one pointer per input and one for the result."""
    arrays = [*case.inputs, case.expected]
    parameters = ", ".join(f".param .u64 p{index}" for index in range(len(arrays)))
    lines = [
        f".visible .entry case_{number}_({parameters}) {{",
        ".reg .b32 %i, %t<4>; .reg .pred %p, %q; .reg .b64 %x<4>;",
    ]
    lines.append("mov.u32 %i, %tid.x;")
    for index, (letter, array) in enumerate(zip([*"abc"[: len(case.inputs)], "d"], arrays, strict=True)):
        register, _ = _LOADED[array.dtype.name]
        lines.append(f".reg .{register} %{letter}; .reg .b64 %{letter}p;")
        lines.append(
            f"ld.param.u64 %{letter}p, [p{index}]; "
            f"mad.wide.u32 %{letter}p, %i, {array.dtype.itemsize}, %{letter}p;"
        )
    lines += [
        f"ld.global.{_LOADED[array.dtype.name][1]} %{letter}, [%{letter}p];"
        for letter, array in zip("abc", case.inputs, strict=False)
    ]
    lines += [
        case.body,
        f"st.global.{_LOADED[case.expected.dtype.name][1].replace('s8', 'u8')} [%dp], %d;",
        "ret;",
        "}",
    ]
    return "\n".join(lines)


def module(name: str, cases: Sequence[Case], more: str = "") -> PtxDevice:
    """Build one device module with all cases. `more` is PTX at module scope."""
    text = HEADER + more + "\n".join(kernel(number, case) for number, case in enumerate(cases))
    return PtxDevice(Path(f"{name}.cu"), text)


def check(device: PtxDevice, number: int, case: Case) -> None:
    """Run one case and compare its result. NaN equals NaN; the signs of zeros must match."""
    count = len(case.expected)
    inputs = [device.array(array, array.dtype.name) for array in case.inputs]
    result = device.empty(count, case.expected.dtype.name)
    device.launch(f"case_{number}_", 1, count, *inputs, result)
    assert device.findings() == []
    np.testing.assert_array_equal(result, case.expected, err_msg=case.body)
    if case.expected.dtype.kind == "f":
        signs = np.signbit(result)[~np.isnan(result)], np.signbit(case.expected)[~np.isnan(case.expected)]
        np.testing.assert_array_equal(*signs, err_msg=f"signs: {case.body}")
