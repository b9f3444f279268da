"""What a model reads, word for word, for a dozen faults of every stage: `golden/NAME.txt`.

`UPDATE_GOLDEN=1 pytest tests/diagnosis/test_golden.py` writes the files anew: read the difference before
committing. The findings come from the code that the judge calls, on stored words and seeded tensors. Sizes of
errors are masked: their last digits are the processor's; and how many references were tried: as many as the
time for it allows.
"""

import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from diagnosis import compilers
from diagnosis.faults import FAULTS
from diagnosis.labels import PROBLEMS
from diagnosis.test_run_time import REAL_PYBIND, SOURCE, TRACE
from mend.candidates import RIGHT

from agent import feedback, sections
from agent.build.build_request import BuildRequest
from agent.diagnosis.build import errors, load_inline_log
from agent.diagnosis.runtime import illegal_launches, python_errors, timeouts
from agent.harness.confirmation import sanitizer
from agent.harness.oracle import explanation
from agent.harness.truth.draws import Draw
from agent.harness.truth.reference import Reference
from agent.records import Attempt, Candidate, Evaluation, Finding, Location, Scope, Stage, Status

GOLDEN = Path(__file__).parent / "golden"
MEASURED = re.compile(r"(max error |up to |got |expected |Closest, with |None of )[-\d.e+]+")
MOST_TOKENS = 400
Findings = tuple[Finding, ...]


def _of_log(compiler: str, name: str) -> Findings:
    """What nvcc or g++ said of a fault in a candidate that holds nothing else."""
    fault = compilers.faults(compiler)[name]
    version = next(key for key in compilers.stored() if key.startswith(compiler))
    source = f"{fault.text}\n// the end\n"
    cpp, cuda = (source, "") if fault.file == "main.cpp" else ("// nothing declared\n", source)
    asked = BuildRequest(
        name="t",
        cpp_sources=(cpp,),
        cuda_sources=(cuda,),
        functions={},
        candidate_source=f'S = r"""{source}"""',
    )
    return errors.explained(load_inline_log.findings(compilers.stored()[version][name], asked), asked)


def _undeclared() -> Findings:
    """A function that is defined, and not declared where it is bound."""
    log = (
        "/build/main.cpp: In function 'void pybind11_init_scale(pybind11::module_&)':\n"
        "/build/main.cpp:4:22: error: 'scale_cuda' was not declared in this scope\n"
    )
    asked = BuildRequest(
        name="scale", cpp_sources=("",), cuda_sources=(RIGHT.split('r"""')[1].split('"""')[0],),
        functions={"scale_cuda": "scale_cuda"}, candidate_source=RIGHT,
    )  # fmt: skip
    return errors.explained(load_inline_log.findings(log, asked), asked)


def _raised(kind: str, message: str, doing: str = "forward failed") -> Findings:
    claim = {"type": kind, "message": message, "line": 43, "traceback": "Traceback (most recent call last):"}
    return (python_errors.finding(claim, doing, RIGHT, TRACE),)


def _launched() -> Findings:
    message = "grid (1, 70000, 1); the limits are x 2147483647, y 65535 and z 65535"
    place = Location(line=7, text="kernel<<<grid, 32>>>();", kernel="kernel")
    return (
        illegal_launches.because(
            Finding(kind="illegal-launch", message=message, location=place), SOURCE, TRACE
        ),
    )


def _timed_out() -> Findings:
    words = timeouts.LastWords(log="", kernel="scale_kernel", kernel_line=21, source=RIGHT)
    return (timeouts.finding("no answer within 30 s while running forward", words),)


def _sanitized() -> Findings:
    return tuple(
        sanitizer.parsed(
            "========= Invalid __global__ write of size 4 bytes\n"
            "=========     at scale_rows(const float *, float *, int)+0xa0\n"
            "=========     by thread (3,0,0) in block (4,1,0)\n"
            "=========     Access at 0x7f0000001000 is out of bounds\n"
            "========= ERROR SUMMARY: 1 error\n"
        )
    )


@cache
def _drawn(problem: str) -> tuple[Reference, Draw]:
    reference = Reference(PROBLEMS / f"{problem}.py", "cpu")
    reference.perturb(3)
    draw = reference.draw(4)
    assert draw is not None
    return reference, draw


def _wrong(problem: str, name: str, source: str = "") -> Findings:
    """A wrong answer explained as the oracle explains it."""
    wrong = next(wrong for fault, _, wrong in FAULTS[problem] if fault == name)
    reference, draw = _drawn(problem)
    with torch.no_grad():
        return _explained(reference, draw, wrong(reference.model, *draw.inputs), source)


def _explained(reference: Reference, draw: Draw, output: Any, source: str = "") -> Findings:
    found = Finding.model_validate(draw.expected.compare(output)["finding"])
    answer = explanation.Explaining(reference, source, found).of_values(draw, output)
    return (Finding.model_validate(answer["finding"]),)


def _half_written() -> Findings:
    reference, draw = _drawn("layer_norm")
    output = draw.expected.native.clone()
    output.reshape(-1)[1536:] = 0
    return _explained(reference, draw, output, "const int block = 256;\nkernel<<<grid, block>>>(x);\n")


def _noise() -> Findings:
    reference, draw = _drawn("layer_norm")
    return _explained(reference, draw, torch.randn(3, 7, 77, generator=torch.Generator().manual_seed(5)))


def _misshapen() -> Findings:
    reference, draw = _drawn("linear_min_bias")
    found = Finding(
        kind="wrong-shape", message="The output has shape (9, 14, 1, 1); the reference's is (1, 14, 9, 1)."
    )
    answer = explanation.Explaining(reference, "", found).of_shape(draw, (9, 14, 1, 1), (1, 14, 9, 1))
    return (Finding.model_validate(answer["finding"]),)


TWICE = 'cuda = """\nfloat mean = sum / n;\nfloat inverse = rsqrtf(var + eps + eps);\n"""\n'
CASES: dict[str, tuple[Status, Stage, Callable[[], Findings]]] = {
    "missing_declaration": (Status.BUILD_ERROR, "build", _undeclared),
    "missing_include": (Status.BUILD_ERROR, "build", lambda: _of_log("nvcc", "half")),
    "shared_of_two_types": (Status.BUILD_ERROR, "build", lambda: _of_log("nvcc", "shared types")),
    "data_ptr_of_another_type": (Status.BUILD_ERROR, "build", lambda: _of_log("g++", "pointer")),
    "too_much_shared_memory": (Status.BUILD_ERROR, "build", lambda: _of_log("nvcc", "too much shared")),
    "wrong_arguments": (Status.RUNTIME_ERROR, "run", lambda: _raised("TypeError", REAL_PYBIND)),
    "illegal_launch": (Status.RUNTIME_ERROR, "run", _launched),
    "timeout": (Status.TIMEOUT, "run", _timed_out),
    "out_of_bounds_by_the_sanitizer": (Status.RUNTIME_ERROR, "integrity", _sanitized),
    "eps_twice": (Status.INCORRECT, "verify", lambda: _wrong("rms_norm", "eps twice", TWICE)),
    "statistics_of_other_groups": (Status.INCORRECT, "verify", lambda: _wrong("group_norm", "layer")),
    "last_block_lost": (Status.INCORRECT, "verify", _half_written),
    "unknown_cause": (Status.INCORRECT, "verify", _noise),
    "wrong_shape": (Status.INCORRECT, "verify", _misshapen),
}


def _text(name: str) -> str:
    status, stage, found = CASES[name]
    evaluation = Evaluation(status=status, stage=stage, scope=Scope(executor="emulator"), findings=found())
    attempt = Attempt(number=1, candidate=Candidate(problem="p", source=RIGHT), evaluation=evaluation)
    return MEASURED.sub(r"\1#", feedback.on_evaluation(attempt).text) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_the_text_is_the_stored_one(name: str) -> None:
    path, text = GOLDEN / f"{name}.txt", _text(name)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
    assert sections.tokens(text) <= MOST_TOKENS


def test_every_stored_text_belongs_to_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(CASES)
