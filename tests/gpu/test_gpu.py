"""The GPU page is what the raw output says, and on a GPU machine the verification itself runs."""

from pathlib import Path

import pytest
from gpu import fast_build, summary, verify

from agent.executors import cuda_obstacle

OBSTACLE = cuda_obstacle()


def test_the_page_is_rendered_from_the_raw_output() -> None:
    assert list(summary.RAW.glob("*.json"))
    assert summary.PAGE.read_text() == summary.render()


@pytest.mark.gpu
@pytest.mark.timeout(1800)
@pytest.mark.skipif(OBSTACLE is not None, reason=f"no CUDA here: {OBSTACLE}")
@pytest.mark.parametrize(("number", "expected"), list(enumerate(verify.RECORDED, start=1)))
def test_recorded_answers_get_their_verdicts_on_a_gpu(
    number: int, expected: tuple[str, int], tmp_path: Path
) -> None:
    status, code = expected
    step = verify.judged(["eval", "level1/group_norm", f"recorded/group_norm:{number}"], status, code)
    assert step["as_expected"], step["stderr"]


@pytest.mark.gpu
@pytest.mark.timeout(900)
@pytest.mark.skipif(OBSTACLE is not None, reason=f"no CUDA here: {OBSTACLE}")
def test_a_fast_build_computes_the_same_bits_as_a_stock_one(tmp_path: Path) -> None:
    program = fast_build.OWN / "torch_and_cuda.py"
    ways = [fast_build.child(program, way, tmp_path) for way in ("fast", "stock")]
    found = fast_build.weighed(program, *ways)
    assert found["wrong"] == []
    assert found["cases"] == 9
