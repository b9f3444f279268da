"""Norms of short rows that are copied end to end, which launchers do with tens of thousands of them."""

from functools import cache

import numpy as np
import pytest
from device_library import Device, build_runtime
from kernels.device.plain_library import TOLERANCE, code_of, exact, normed, placed, run

from agent.kernels import rows

FACE = """
extern "C" int tiled_{name}(const void* packed) {{
    return kernelwright::launch_tiled<{centred}>(*static_cast<const kernelwright::RowForward*>(packed));
}}
"""


@cache
def _device() -> Device:
    path = build_runtime().parent / "tiled_norms.cu"
    faces = (FACE.format(name="rms_norm", centred="false"), FACE.format(name="layer_norm", centred="true"))
    path.write_text(code_of(("layer_norm",), "float32") + "".join(faces))
    return Device(path, checked=True)


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
@pytest.mark.parametrize(("count", "length"), [(16, 100), (37, 124), (5, 68)])
def test_rows_end_to_end(count: int, length: int, name: str) -> None:
    """Whole blocks and not, far from zero; with a bias where there is a mean."""
    device, random, is_centred = _device(), np.random.default_rng(0), name == "layer_norm"

    def filled(*shape: int, shift: float = 0.0) -> np.ndarray:
        return placed(device, random.standard_normal(shape) + shift, "float32", 0)

    x, weight = filled(count, length, shift=9.0), filled(length, shift=1.0)
    bias = filled(length) if is_centred else None
    y = placed(device, np.full(x.shape, np.nan), "float32", 0)
    run(device, f"tiled_{name}", rows.FORWARD, x, weight, bias, y, 0, 0, count, length, 0, 0, 1e-5, 0, 0)
    wanted = normed(exact(x), exact(weight), exact(bias) if bias is not None else None, is_centred)
    allowed = TOLERANCE["float32"]
    np.testing.assert_allclose(y, wanted.detach().numpy(), atol=5 * allowed, rtol=allowed)
