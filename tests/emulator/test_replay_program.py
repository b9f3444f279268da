"""What a record that is not trusted may ask of a replay."""

import json
from typing import Any

import pytest

from agent.emulator.replay import events as replayed
from agent.emulator.replay import program
from agent.emulator.replay.events import Forged
from agent.emulator.replay.program import Program
from agent.records import LibraryOps

X, W, Y, Z = 1 << 45, (1 << 45) + 4096, (1 << 45) + 8192, (1 << 45) + 12288
LIBRARY = {"/built/extension.so": (0, {64})}
Event = dict[str, Any]


def tensor(address: int, shape: tuple[int, ...] = (4, 8)) -> Event:
    return {"tensor": [address, "float32", list(shape), [shape[1], 1]]}


def operator(name: str, arguments: list[Any], *results: Event | None) -> Event:
    return {
        "do": "operator", "name": name, "overload": "default", "arguments": arguments, "keywords": {},
        "results": list(results), "line": 7,
    }  # fmt: skip


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def launch(**change: Any) -> Event:
    event: Event = {
        "do": "launch", "entry": ["/built/extension.so", 64], "name": "k", "line": 3, "grid": [1, 1, 1],
        "block": [32, 1, 1], "shared": 0, "cooperative": False, "cluster": [0, 0, 0],
        "arguments": Y.to_bytes(8, "little").hex() + "00" * 8, "words": [],
    }  # fmt: skip
    return event | change


def read(*events: Event, setting: LibraryOps = "gemm-conv") -> Program:
    """A record in which X is the input, W a parameter and Y, of the call, the output."""
    before = [{"do": "allocate", "to": place, "bytes": 128} for place in (X, W)]
    given = [
        {"do": "given", "what": "state", "index": 0, "to": W, "bytes": 128},
        {"do": "given", "what": "inputs", "index": 0, "to": X, "bytes": 128},
    ]
    made = [{"do": "allocate", "to": place, "bytes": 128} for place in (Y, Z)]
    lines = [*before, *given, *made, *events, {"do": "outputs", "tensors": [tensor(Y)]}]
    return program.read(replayed.read("\n".join(map(json.dumps, lines))), LIBRARY, setting)


def test_inputs_and_parameters_are_the_judges_own_bytes() -> None:
    found = read(launch())

    assert ["file", W, "own-state.0", 128] in found.before
    assert found.after[0] == ["file", X, "own-inputs.0", 128]
    assert found.launches == 1


@pytest.mark.parametrize(("setting", "kept"), [("gemm-conv", False), ("any", True)])
def test_a_product_with_an_activation_is_no_product(setting: LibraryOps, kept: bool) -> None:
    found = read(operator("_addmm_activation", [tensor(X), tensor(W)], tensor(Y)), setting=setting)

    assert any(step[0] == "operator" for step in found.after) is kept


@pytest.mark.parametrize(("setting", "kept"), [("gemm-conv", True), ("any", True), ("none", False)])
def test_a_product_stays_as_the_setting_says(setting: LibraryOps, kept: bool) -> None:
    found = read(operator("mm", [tensor(X), tensor(W)], tensor(Y)), setting=setting)

    assert any(step[0] == "operator" for step in found.after) is kept
    assert [omitted.what for omitted in found.omitted] == ([] if kept else ["torch's mm"])


def test_what_wrote_the_output_is_known_with_its_line() -> None:
    found = read(operator("exp", [tensor(X)], tensor(Z)), operator("gelu", [tensor(Z)], tensor(Y)))

    writer = found.last_writer()
    assert writer is not None
    assert (writer.what, writer.line) == ("torch's gelu", 7)


def test_operators_on_parameters_alone_run_before_the_inputs() -> None:
    found = read(operator("exp", [tensor(W)], tensor(Z)), operator("log", [tensor(Z)], tensor(Y)))

    assert [step[1] for step in found.before if step[0] == "operator"] == ["exp", "log"]
    assert found.omitted == []


def test_changing_a_parameter_in_place_is_no_packing() -> None:
    assert [o.what for o in read(operator("exp_", [tensor(W)], None)).omitted] == ["torch's exp"]


@pytest.mark.parametrize("setting", ["gemm-conv", "any"])
@pytest.mark.parametrize("earlier", [True, False])
def test_an_operator_of_the_files_own_is_its_launches_alone(setting: LibraryOps, earlier: bool) -> None:
    """Torch has none of that name where kernels are repeated, whether this call or one before ran it."""
    own = operator("own", [tensor(X)], tensor(Y)) | {"overload": "relu_square.default"}
    given = {"do": "given", "what": "inputs", "index": 0, "to": X, "bytes": 128}
    made = [{"do": "allocate", "to": place, "bytes": 128} for place in (X, Y)]
    lines = [
        *made,
        *([own] if earlier else []),
        given,
        own,
        launch(),
        {"do": "outputs", "tensors": [tensor(Y)]},
    ]

    found = program.read(replayed.read("\n".join(map(json.dumps, lines))), LIBRARY, setting)

    assert not any(step[0] == "operator" for step in (*found.before, *found.after))
    said = ["what the operator own.relu_square does besides launching kernels"]
    assert [omitted.what for omitted in found.omitted] == said


def test_plain_copies_and_fills_need_no_torch() -> None:
    found = read(
        operator("clone", [tensor(X)], tensor(Z)),
        operator("zeros_like", [tensor(X)], tensor(Y)),
        operator("full_like", [tensor(X), 1.5], tensor(Y)),
        operator("empty_like", [tensor(X)], tensor(Y)),
    )

    assert found.after[1:] == [["move", Z, X, 128], ["fill", Y, "00", 128], ["fill", Y, "0000c03f", 128]]


def test_bytes_of_the_host_take_part_where_the_record_has_them() -> None:
    write = {"do": "write", "to": Z, "bytes": 9000, "data": "00" * 9000}

    found = read(write, write | {"data": None})

    assert [step[0] for step in found.after] == ["file", "bytes"]
    assert [omitted.what for omitted in found.omitted] == ["9000 bytes written by host code"]


def test_a_product_of_what_a_kernel_may_have_written_keeps_its_place() -> None:
    """W was there before the inputs, and it is passed to a kernel of this call."""
    passed = launch(arguments=W.to_bytes(8, "little").hex())

    found = read(passed, operator("mm", [tensor(W), tensor(W)], tensor(Y)))

    assert [step[0] for step in found.after] == ["file", "launch", "operator"]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (launch(entry=["/built/extension.so", 65]), "a launch that enters at"),
        (launch(entry=["/lib/libc.so", 64]), "a launch that enters at"),
        (launch(entry=64), "a launch that enters at"),
        (launch(words=[[12, ["/built/extension.so", 0]]]), "outside the arguments"),
        ({"do": "system"}, r"line 7\.do: one of allocate, given, launch, .* is expected"),
        ({}, r"\.do: one of"),
        (launch(cooperative="yes"), r"\.cooperative: true or false is expected, not str"),
        (launch(grid=[1, 1]), r"\.grid: a list of 3 is expected"),
        (launch(block=[1 << 40, 1, 1]), "a size that no launch has"),
        (launch(more=1), "launch has the unknown more"),
        (launch(arguments="0"), "arguments that are no bytes"),
        (launch(name="k\0"), "a kernel of no such name"),
        (operator("exp", [{"tensor": [X, "float32", [1 << 39, 1 << 39], [1, 1]]}], tensor(Y)), "an argument"),
        (operator("exp", [{"tensor": [X, "float128", [4], [1]]}], tensor(Y)), "an argument that is none"),
        (operator("exp", [{"literal": "00", "dtype": "float32", "shape": [1]}], tensor(Y)), "an argument"),
        (operator("exp", [nested(200)], tensor(Y)), "nested too deeply"),
        (operator("exp", [tensor(X)], {"tensor": 1}), "an argument that is none"),
        ({"do": "fill", "to": X, "bytes": 8, "data": ""}, "data that are no bytes"),
        ({"do": "write", "to": X, "bytes": 8, "data": "00"}, "data that are not its bytes"),
        ({"do": "move", "to": X, "from": -1, "bytes": 8}, "a place that no memory has"),
        ({"do": "move", "to": X, "from": 10**30, "bytes": 8}, "at most 64 bits"),
        ({"do": "given", "what": "../secret", "index": 0, "to": X, "bytes": 8}, "bytes of ../secret"),
        ({"do": "allocate", "to": X + (1 << 40), "bytes": 8}, "larger than it can be"),
        ({"do": "fill"}, "fill lacks bytes, data, to"),
        ({"do": "outputs", "tensors": [{"other": "a set"}]}, "outside device memory"),
    ],
)
def test_a_record_that_the_runtime_does_not_write_is_refused(event: Event, words: str) -> None:
    with pytest.raises(Forged, match=words):
        read(event)


@pytest.mark.parametrize(
    "record", ["", "\n", "[" * 5000, "nonsense", "[]", '{"do": 1}', '{"do": ["launch"]}']
)
def test_what_is_no_record_is_refused(record: str) -> None:
    with pytest.raises(Forged, match="line 1"):
        replayed.read(record)


def test_operators_without_their_operands_are_left_to_torch() -> None:
    for name in ("clone", "copy_", "fill_", "zero_", "zeros_like", "_to_copy"):
        found = read(operator(name, []))
        assert ["operator", name, "default", [], {}, []] in (*found.before, *found.after)


@pytest.mark.parametrize("keyword", ["other", "tensor", "literal"])
def test_a_keyword_may_have_the_name_of_anything(keyword: str) -> None:
    added = operator("add", [tensor(X)], tensor(Y)) | {"keywords": {keyword: tensor(W)}}
    assert read(added, setting="any").omitted == []
    assert [omitted.what for omitted in read(added).omitted] == ["torch's add"]
    with pytest.raises(Forged):
        read(added | {"keywords": {keyword: ["dict", {"tensor": 3}]}})
