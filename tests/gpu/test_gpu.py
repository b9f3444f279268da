"""The GPU page is what the raw output says, and on a GPU machine the verification itself runs."""

from pathlib import Path

import pytest
from gpu import slim_build, summary, verify
from mend.candidates import changed

from agent.executors import cuda_obstacle
from benchmarks.storage import GPU

OBSTACLE = cuda_obstacle()


def test_the_page_is_rendered_from_the_raw_output() -> None:
    assert list(GPU.glob("*.json"))
    assert summary.PAGE.read_text() == summary.render()


@pytest.mark.gpu
@pytest.mark.timeout(1800)
@pytest.mark.skipif(OBSTACLE is not None, reason=f"no CUDA here: {OBSTACLE}")
@pytest.mark.parametrize(("number", "expected"), list(enumerate(verify.RECORDED, start=1)))
def test_recorded_attempts_get_their_verdicts_on_a_gpu(
    number: int, expected: tuple[str, int], tmp_path: Path
) -> None:
    status, code = expected
    step = verify.judged(["eval", "level1/group_norm", f"recorded/group_norm:{number}"], status, code)
    assert step["as_expected"], step["stderr"]


@pytest.mark.gpu
@pytest.mark.timeout(900)
@pytest.mark.skipif(OBSTACLE is not None, reason=f"no CUDA here: {OBSTACLE}")
@pytest.mark.parametrize(("name", "kind"), list(verify.FAILING_BUILDS.items()))
def test_a_build_that_fails_outside_import_is_a_build_error_on_a_gpu(name: str, kind: str) -> None:
    command = verify.corpus("buggy", name, "hardtanh_scale")
    steps = [
        verify.judged(command, "build_error", 1, kind), verify.judged([*command, "--mend"], "verified", 0)
    ]  # fmt: skip
    assert [step["as_expected"] for step in steps] == [True, True], [step["evaluation"] for step in steps]


@pytest.mark.gpu
@pytest.mark.timeout(900)
@pytest.mark.skipif(OBSTACLE is not None, reason=f"no CUDA here: {OBSTACLE}")
def test_a_fast_build_computes_the_same_bits_as_a_stock_one(tmp_path: Path) -> None:
    program = slim_build.OWN / "torch_and_cuda.py"
    ways = [slim_build.child(program, way, tmp_path) for way in ("fast", "stock")]
    found = slim_build.weighed(program, *ways)
    assert found["wrong"] == []
    assert found["cases"] == 9


FACTOR = """import torch


class Model(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return self.factor * x


def get_inputs():
    return [torch.randn(640, 512)]


def get_init_inputs():
    return [2.0]
"""


@pytest.mark.gpu
@pytest.mark.timeout(900)
@pytest.mark.skipif(OBSTACLE is not None, reason=f"no CUDA here: {OBSTACLE}")
def test_an_illegal_access_gets_its_line(tmp_path: Path) -> None:
    """CUDA says that there was one; the line comes from the emulator or from compute-sanitizer."""
    source = changed(("y[i] = factor", "y[i + (int64_t(1) << 40)] = factor"))
    (tmp_path / "reference.py").write_text(FACTOR)
    (tmp_path / "candidate.py").write_text(source)
    arguments = ["eval", str(tmp_path / "reference.py"), str(tmp_path / "candidate.py")]
    step = verify.judged(arguments, "runtime_error", 1)
    assert step["as_expected"], step["stderr"]
    headline = step["evaluation"]["findings"][0]
    assert "Run again at small sizes" in headline["message"], headline
    assert headline["location"]["kernel"] == "scale_kernel"
    wrong = next(n for n, line in enumerate(source.splitlines(), 1) if "<< 40" in line)
    assert headline["location"]["line"] in (wrong, None)
