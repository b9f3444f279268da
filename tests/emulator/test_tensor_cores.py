"""The emulator's tensor cores against an H200's, bit for bit: what was measured is in tests/tensor_cores."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from ptx_library import NVCC, PtxDevice, from_cuda
from tensor_cores import descriptors
from tensor_cores.descriptors import PROBES, Probe
from tensor_cores.instructions import INSTRUCTIONS, Instruction, source
from tensor_cores.measure import checksum, checksums, of_all
from tensor_cores.tiles import KINDS, Array, tiles

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: PTX cannot be made from CUDA here")
MEASURED = Path(__file__).parents[1] / "tensor_cores"
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


def emulated_sums(one: Instruction, gpu: dict[str, Array]) -> Array:
    """Checksums of what the emulator makes of the tiles that the GPU was given."""
    seed, each = gpu["seed_each"].tolist()
    given = tiles(one.formats, one.depth, each, seed)
    assert checksum(given) == str(gpu[f"{one.name}.inputs"]), (
        "numpy draws other numbers than it did on the GPU"
    )
    emulated = device("products", source(INSTRUCTIONS, with_host=False))
    made = emulated.empty(given[2].shape, str(given[2].dtype))
    arrays = [emulated.array(part, str(part.dtype)) for part in given]
    emulated.launch(one.name, len(made), 128, *arrays, made)
    return checksums(made)


@pytest.mark.parametrize("one", INSTRUCTIONS, ids=lambda one: one.name)
def test_products(one: Instruction) -> None:
    gpu = measured("products")
    differing = np.flatnonzero(emulated_sums(one, gpu) != gpu[f"{one.name}.tiles"])
    assert {KINDS[tile % len(KINDS)].__name__ for tile in differing} == set()


@pytest.mark.parametrize("one", INSTRUCTIONS, ids=lambda one: one.name)
def test_products_of_a_second_seed(one: Instruction, request: pytest.FixtureRequest) -> None:
    """Of each kind of tile one checksum of all is kept."""
    if not request.config.getoption("--all-kernels"):
        pytest.skip("as many tiles again; --all-kernels runs it")
    gpu = measured("products-second")
    made = emulated_sums(one, gpu)
    kinds = [of_all(made[number :: len(KINDS)]) for number in range(len(KINDS))]
    assert kinds == gpu[f"{one.name}.kinds"].tolist()


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
