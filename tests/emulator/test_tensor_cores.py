"""The emulator's tensor cores against an H200's, bit for bit: what was measured is in tests/tensor_cores."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from ptx_library import NVCC, PtxDevice, from_cuda
from tensor_cores import descriptors
from tensor_cores.descriptors import PROBES, Probe
from tensor_cores.instructions import INSTRUCTIONS, Instruction, source
from tensor_cores.measure import checksum, checksums
from tensor_cores.tiles import KINDS, Array, tiles

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: PTX cannot be made from CUDA here")
MEASURED = Path(__file__).parents[1] / "tensor_cores"
SPECIAL = [kind.__name__ for kind in KINDS].index("special")
EVERY = 5
"""Of the descriptors that were measured."""
DYNAMIC_BYTES = 8
"""cudaFuncAttributeMaxDynamicSharedMemorySize"""


@cache
def device(name: str, text: str) -> PtxDevice:
    path = MEASURED / f"{name}.cu"
    written = PtxDevice.scratch(path.name, text)
    return PtxDevice(path, from_cuda(written, arch="sm_90a"))


@cache
def measured(name: str) -> dict[str, Array]:
    with np.load(MEASURED / f"{name}-h200.npz") as stored:
        return dict(stored)


@pytest.mark.parametrize("one", INSTRUCTIONS, ids=lambda one: one.name)
def test_products(one: Instruction) -> None:
    gpu = measured("products")
    seed, each = gpu["seed_each"].tolist()
    given = tiles(one.formats, one.depth, each, seed)
    assert checksum(given) == str(gpu[f"{one.name}.inputs"]), (
        "numpy draws other numbers than it did on the GPU"
    )
    emulated = device("products", source(INSTRUCTIONS, with_host=False))
    made = emulated.empty(given[2].shape, str(given[2].dtype))
    arrays = [emulated.array(part, str(part.dtype)) for part in given]
    emulated.launch(one.name, len(made), 128, *arrays, made)
    agree = checksums(made) == gpu[f"{one.name}.tiles"]
    if one.a == "f64":  # which of several NaN a result keeps is not modelled
        agree[SPECIAL :: len(KINDS)] = True
    assert np.flatnonzero(~agree).tolist() == []


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_descriptors(probe: Probe) -> None:
    gpu = measured("descriptors")
    emulated = device("descriptors", descriptors.source(with_host=False))
    found, bytes_ = emulated.empty(probe.shape, "int32"), descriptors.PATTERN + 4096
    emulated.runtime.kw_set_function_attribute(probe.name.encode(), DYNAMIC_BYTES, bytes_)
    for index in range(PROBES.index(probe) % EVERY, len(gpu["asked"]), EVERY):
        *words, start = gpu["asked"][index].tolist()
        shape = ((1, 1, 1), (128, 1, 1), bytes_)
        word = np.uint64(descriptors.description(*words))
        emulated.launch_with(probe.name, shape, word, np.int32(start), found)
        assert checksums(found[None])[0] == gpu[probe.name][index], (words, start)
