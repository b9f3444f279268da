"""Exceptions, CUDA errors, illegal launches and timeouts in plain words."""

import re
from pathlib import Path

import pytest
from mend.candidates import RIGHT

from agent.diagnosis import signature
from agent.diagnosis.runtime import cuda_errors, illegal_launches, pybind_errors, python_errors, timeouts
from agent.records import Finding, Location, TensorSpec, Trace

TRACE = Trace(
    operations=(), inputs=(TensorSpec(shape=(70_000, 16), dtype="float32"),), init_inputs=(2.0,), outputs=(),
    state=(), flops=0, min_bytes=0,
)  # fmt: skip
REAL_PYBIND = """scale_cuda(): incompatible function arguments. The following argument types are supported:
    1. (arg0: torch.Tensor, arg1: typing.SupportsFloat | typing.SupportsIndex) -> torch.Tensor

Invoked with: tensor([[ 1.0, -0.2],
        [ 0.7,  0.1]], device='cuda:0'), 'two'
"""
OLD_PYBIND = """scale_cuda(): incompatible function arguments. The following argument types are supported:
    1. (arg0: torch.Tensor, arg1: int) -> torch.Tensor

Invoked with: Parameter containing:
tensor([1., 1.], requires_grad=True), 0.5
"""


def raised(
    kind: str, message: str, doing: str = "running forward failed", line: int | None = None
) -> Finding:
    claim = {
        "type": kind,
        "message": message,
        "line": line,
        "traceback": "Traceback (most recent call last):",
    }
    return python_errors.finding(claim, doing, RIGHT, TRACE)


@pytest.mark.parametrize(
    ("error", "message", "doing", "kind", "says"),
    [
        ("NameError", "name 'F' is not defined", "forward failed", "missing-import",
         "torch.nn.functional as F"),
        ("NameError", "name 'extention' is not defined", "forward failed", "undeclared-name", "`extension`"),
        ("TypeError", "load_inline() missing 1 required positional argument: 'cpp_sources'",
         "importing the file failed", "cpp-sources-missing", "cpp_sources"),
        ("TypeError", "ModelNew.__init__() takes 1 positional argument but 2 were given",
         "creating ModelNew failed", "constructor-arguments", r"1 argument \(2.0\)"),
        ("TypeError", "ModelNew.forward() takes 1 positional argument but 2 were given", "forward failed",
         "forward-arguments", r"float32 \[70000, 16\]"),
        ("AttributeError", "module 'scale' has no attribute 'scale'", "forward failed", "missing-attribute",
         "call `scale_cuda`"),
        ("AttributeError", "'ModelNew' object has no attribute 'weight'", "forward failed",
         "missing-attribute", "`weight`"),
        ("RuntimeError", "expected scalar type Double but found Float", "forward failed", "data-ptr-type",
         "Double"),
        ("RuntimeError", "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be",
         "forward failed", "illegal-address", "700"),
        ("RuntimeError", "CUDA error: invalid configuration argument", "forward failed", "illegal-launch",
         "1024 threads"),
        ("AcceleratorError", "CUDA error: misaligned address", "forward failed", "misaligned-access",
         "float4"),
        ("RuntimeError", "CUDA error: too many resources requested for launch", "forward failed",
         "illegal-launch", "registers"),
        ("ValueError", "nobody knows this", "forward failed", "python-error", "nobody knows this"),
    ],
)  # fmt: skip
def test_an_exception_is_named(error: str, message: str, doing: str, kind: str, says: str) -> None:
    found = raised(error, message, doing)
    assert found.kind == kind
    assert re.search(says, found.message), found.message


def test_parameters_that_do_not_fit_are_listed() -> None:
    claim = {
        "type": "RuntimeError",
        "kind": "state-dict-mismatch",
        "message": "Error(s) in loading state_dict for ModelNew:\n\t"
        'Missing key(s) in state_dict: "gamma". \n\t'
        'Unexpected key(s) in state_dict: "weight". \n\tsize mismatch for bias: copying a param with shape '
        "torch.Size([8]) from checkpoint, the shape in current model is torch.Size([4]).",
    }
    found = python_errors.finding(claim, "creating ModelNew failed", RIGHT)
    assert found.kind == "state-dict-mismatch"
    for words in ('"weight"', '"gamma"', "`bias` is [8] in the reference and [4] in ModelNew"):
        assert words in found.message


def test_a_check_of_the_candidates_own_is_told_by_its_words() -> None:
    source = RIGHT.replace(
        "    auto y =", '    TORCH_CHECK(x.dim() == 3, "x has to have three dimensions");\n    auto y ='
    )
    claim = {"type": "RuntimeError", "message": "x has to have three dimensions", "line": 45}
    found = python_errors.finding(claim, "forward failed", source)
    assert found.kind == "host-check-failed"
    assert "line 16" in found.message


def test_pybinds_own_words_are_read() -> None:
    assert pybind_errors.mismatch(REAL_PYBIND) == (
        "`scale_cuda` takes (Tensor, float), and is called with (a tensor, 'two')."
    )
    assert pybind_errors.mismatch(OLD_PYBIND) == (
        "`scale_cuda` takes (Tensor, int), and is called with float 0.5 where argument 2 is `int`: "
        "(a tensor, float 0.5)."
    )
    assert pybind_errors.mismatch("something else") is None


def test_an_exception_that_follows_from_a_kernels_fault_is_left_out() -> None:
    fault = Finding(kind="illegal-address", message="a null pointer was dereferenced")
    echo = raised("RuntimeError", "CUDA error: an illegal memory access was encountered")
    other = raised("ValueError", "shapes differ")
    assert python_errors.beside([fault], echo) == [fault]
    assert python_errors.beside([fault], other) == [fault, other]
    assert python_errors.beside([], echo) == [echo]


def test_words_without_cuda_name_no_error_of_cuda() -> None:
    assert cuda_errors.of_text("invalid argument: dim") is None


SOURCE = """\
void launch(int rows, int n) {
    const int threads = 2048;
    dim3 grid(1, rows);
    dim3 block{32, 64};
    int blocks = n / 256;
    size_t bytes = rows * sizeof(float);
    kernel<<<grid, 32>>>();
    kernel<<<blocks, threads>>>();
    kernel<<<1, block>>>();
    kernel<<<1, 32, bytes>>>();
    kernel<<<dim3(n), 32>>>();
}
"""


THREADS = "the limit is 1024 threads (x and y up to 1024, z up to 64)"


@pytest.mark.parametrize(
    ("line", "message", "says"),
    [
        (7, "grid (1, 70000, 1); the limits are x 2147483647, y 65535 and z 65535",
         "grid.y = 70000 > 65535, because it is `rows` (line 3); 70000 is dimension 0 of input 0"),
        (8, "block (2048, 1, 1) has 2048 threads; " + THREADS,
         "a block of 2048 threads > 1024, because it is `2048` (line 2)"),
        (9, "block (32, 64, 1) has 2048 threads; " + THREADS,
         "a block of 32 x 64 = 2048 threads > 1024, because it is `64` (line 4)"),
        (8, "grid (0, 1, 1) and block (32, 1, 1): no size may be 0",
         "grid.x = 0, because it is `n / 256` (line 5)"),
        (10, "50000 bytes of dynamic shared memory; the limit is 49152 unless cudaFuncSetAttribute(kernel, "
         "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) raises it",
         "raises the limit), because it is `rows * sizeof(float)` (line 6)"),
        (11, "grid (4294967295, 1, 1); the limits are x 2147483647, y 65535 and z 65535",
         "(a negative number) > 2147483647, because it is `n`"),
    ],
)  # fmt: skip
def test_an_illegal_launch_says_which_size_and_where_it_comes_from(
    line: int, message: str, says: str
) -> None:
    finding = Finding(kind="illegal-launch", message=message, location=Location(line=line, kernel="kernel"))
    found = illegal_launches.because(finding, SOURCE, TRACE)
    assert found.message.startswith("`kernel` is never launched: ")
    assert says in found.message
    assert found.evidence == message


def test_other_findings_and_other_words_stay() -> None:
    race = Finding(kind="shared-race", message="two threads", location=Location(line=1))
    unknown = Finding(kind="illegal-launch", message="too many at once", location=Location(line=1))
    assert illegal_launches.because(race, SOURCE, TRACE) is race
    assert illegal_launches.because(unknown, SOURCE, TRACE) is unknown


def test_a_timeout_names_the_kernel_that_ran(tmp_path: Path) -> None:
    (tmp_path / timeouts.RUNNING).write_bytes(b"21 scale_kernel\0left over")
    said = timeouts.last_words(tmp_path, "", RIGHT)
    found = timeouts.finding("no answer within 15 s while running forward", said)
    assert "Kernel `scale_kernel`, launched at line 21, was running." in found.message
    assert found.location is not None
    assert (found.location.line, found.location.kernel) == (21, "scale_kernel")


def test_a_timeout_outside_kernels_names_the_line_of_python(tmp_path: Path) -> None:
    log = 'Thread 0x1 (most recent call first):\n  File "/x/candidate.py", line 43 in forward\n'
    found = timeouts.finding("no answer within 15 s", timeouts.last_words(tmp_path, log, RIGHT))
    assert "It stood at line 43." in found.message


@pytest.mark.parametrize("claim", [b"", b"\xff\xfe", b"x" * 600, b"999999999999 k", b"0 kernel; rm"])
def test_a_claim_that_makes_no_sense_says_nothing_more(claim: bytes, tmp_path: Path) -> None:
    (tmp_path / timeouts.RUNNING).write_bytes(claim)
    said = timeouts.last_words(tmp_path, "", RIGHT)
    assert said.kernel is None or re.fullmatch(r"[\w:<>, ]+", said.kernel)


def test_a_link_in_the_place_of_the_claim_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("12 secret")
    (tmp_path / timeouts.RUNNING).symlink_to(tmp_path / "secret")
    assert timeouts.last_words(tmp_path, "", RIGHT).kernel is None


def test_a_signature_is_that_of_the_mistake() -> None:
    first = Finding(
        kind="wrong-values", message="12 of 64 elements, first at (0, 3)", location=Location(line=3)
    )
    again = Finding(kind="wrong-values", message="With zero inputs: 40 of 64 elements, first at (1, 2)")
    other = first.model_copy(update={"kind": "nan-output"})
    assert signature.compute_signature(first) == signature.compute_signature(again)
    assert signature.compute_signature(first) != signature.compute_signature(other)
    assert re.fullmatch(r"[0-9a-f]{12}", signature.compute_signature(first))
    names = [Finding(kind="undeclared-name", message=f"`{name}` is used here.") for name in ("a1", "b1")]
    assert signature.compute_signature(names[0]) != signature.compute_signature(names[1])
