"""Whatever a compiler, pybind11, Python, CUDA or a tool prints, reading it ends and says something."""

import string

from hypothesis import given
from hypothesis import strategies as st

from agent.build.nvcc import messages
from agent.diagnosis import signature
from agent.diagnosis.build import cpp_functions
from agent.diagnosis.runtime import cuda_errors, illegal_launches, pybind_errors, python_errors
from agent.harness.confirmation import sanitizer
from agent.records import Finding, Location, TensorSpec, Trace

TRACE = Trace(
    operations=(), inputs=(TensorSpec(shape=(70_000, 16), dtype="float32"),), init_inputs=(2.0,), outputs=(),
    state=(), flops=0, min_bytes=0,
)  # fmt: skip
SOURCE = "\n".join(["int rows = 7;", "dim3 grid(1, rows);", "kernel<<<grid, 32>>>(x);"] * 3)
PIECES = st.sampled_from(
    [
        "incompatible function arguments. The following argument types are supported:\n",
        "    1. (arg0: torch.Tensor, arg1: int) -> torch.Tensor\n",
        "\nInvoked with: tensor([[1., 2.],\n        [3., 4.]], device='cuda:0'), 0.5, 'two, three'",
        "Parameter containing:\n", "(", "[", "{", "'", '"', ", ", "->", "<", ">", "::", "\n", "\x1b[31m",
        "ModelNew.__init__() takes 1 positional argument but 2 were given",
        "module 'scale' has no attribute 'f'", "name 'F' is not defined",
        "CUDA error: an illegal memory access was encountered",
        "========= Invalid __global__ write of size 4 bytes\n",
        "=========     at k(float *)+0xa0\n", "=========     by thread (3,0,0) in block (4,1,0)\n",
        "========= Error: Race reported between Write access at k(float *)+0x1f0\n",
        "ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90'\n",
        "ptxas info    : Used 32 registers, 4096 bytes smem, 360 bytes cmem[0]\n",
        "    96 bytes stack frame, 96 bytes spill stores, 96 bytes spill loads\n",
        "ptxas error   : Entry function '_Z1kPf' uses too much shared data (0x13880 bytes, 0xc000 max)\n",
        "detected during:\n", "(133): here\n", "/x/cuda.cu(4): error: identifier \"a\" is undefined\n",
    ]
)  # fmt: skip
WORDS = st.lists(PIECES | st.text(string.printable, max_size=20), max_size=8).map("".join)


@given(WORDS)
def test_a_call_across_the_boundary(words: str) -> None:
    said = pybind_errors.mismatch(f"scale_cuda(): {words}")
    assert said is None or said.strip()


@given(st.sampled_from(["TypeError", "NameError", "AttributeError", "RuntimeError", "X"]), WORDS)
def test_an_exception(error: str, words: str) -> None:
    claim = {"type": error, "message": words, "line": 3, "traceback": words}
    found = python_errors.finding(claim, "forward failed", SOURCE, TRACE)
    assert found.kind
    assert found.message.strip()


@given(WORDS)
def test_an_error_of_cuda(words: str) -> None:
    found = cuda_errors.of_text(words)
    assert found is None or "cuda" in words.lower()


@given(WORDS, st.integers(-2, 12))
def test_an_illegal_launch(words: str, line: int) -> None:
    place = Location(line=max(line, 1), kernel="kernel")
    finding = Finding(kind="illegal-launch", message=f"grid (1, 70000, 1); {words}", location=place)
    assert illegal_launches.because(finding, SOURCE, TRACE).message.strip()


@given(WORDS)
def test_a_log_of_compute_sanitizer(words: str) -> None:
    assert all(found.count >= 1 and found.location is not None for found in sanitizer.parsed(words))


@given(WORDS)
def test_a_log_of_nvcc_and_ptxas(words: str) -> None:
    assert all(message.severity and message.line >= 0 for message in messages.parse(words))
    assert all(fault.text for fault in messages.faults(words))
    for kernel in messages.kernels(words):
        assert all(number is None or number >= 0 for number in (kernel.registers, kernel.spill_bytes))


@given(WORDS)
def test_a_text_of_c(words: str) -> None:
    for function in cpp_functions.functions(words):
        assert 0 <= function.start <= function.end <= len(words)


@given(WORDS, st.integers(0, 10**9), st.floats(allow_nan=False, allow_infinity=False))
def test_a_signature_has_no_numbers(words: str, whole: int, real: float) -> None:
    one = Finding(kind="k", message=f"a {words} at 1 of 2.5")
    other = Finding(kind="k", message=f"a {words} at {whole} of {real}")
    assert signature.compute_signature(one) == signature.compute_signature(other)
