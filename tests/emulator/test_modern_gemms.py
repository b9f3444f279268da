"""Products and attention in the styles of fast kernels: right in every order of threads, with no finding."""

import numpy as np
import pytest
from modern_cases import CASES, Case, Map
from modern_kernels import ORDERS, SWIZZLE_128B, Checked, encode
from ptx_library import NVCC

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: PTX cannot be made from CUDA here")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kernel)
def test_right_ones(case: Case, order: int) -> None:
    given = case.make()
    with Checked("gemms", order) as device:
        arrays = [device.array(array, str(array.dtype)) for array in given.arrays]
        arguments = [
            arrays[one] if isinstance(one, int)
            else encode(device, arrays[one.array], one.box, one.kind, SWIZZLE_128B) if isinstance(one, Map)
            else one
            for one in given.arguments
        ]  # fmt: skip
        device.cluster = (case.cluster, 1, 1)
        shape = ((case.grid, 1, 1), (case.threads, 1, 1), case.dynamic)
        device.launch_with(case.kernel, shape, *arguments)
        np.testing.assert_allclose(arrays[given.output], given.expected, rtol=0, atol=given.tolerance)
        assert device.findings() == []
