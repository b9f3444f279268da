"""Where shared memory is handed over rightly no order of threads shows a race, and where it is not each does.

What the emulator says decides where compute-sanitizer's racecheck may be wrong
(docs/adr/0028-races-that-racecheck-is-not-sure-of.md).
"""

import handovers
import numpy as np
import pytest
from modern_kernels import ORDERS
from ptx_library import NVCC

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: PTX cannot be made from CUDA here")

RACES = {"shared-race", "async-copy-not-waited"}


@pytest.mark.parametrize("order", ORDERS)
def test_a_race_is_found_where_there_is_one_alone(order: int) -> None:
    assert len(handovers.KERNELS) == 48
    for kernel in handovers.KERNELS:
        out, found = handovers.launched(kernel, order)
        if handovers.is_race(kernel):
            assert found & RACES, kernel
        else:
            assert not found, kernel
            assert np.array_equal(out, handovers.expected(kernel)), kernel
