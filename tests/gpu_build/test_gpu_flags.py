"""Which flags of a load_inline call the slim build passes on, drops, or doubts."""

import pytest

from agent.gpu_build import Doubt, Gpu, flags

GPU = Gpu(capability="9.0")


def test_flags_of_device_code_are_passed_on() -> None:
    given = ("-O3", "--use_fast_math -DTILE=32", "-Xptxas", "-O3,-v", "-maxrregcount=64", "-std=c++17", "-g")
    assert flags.device(given) == ["-O3", "--use_fast_math", "-DTILE=32", "-Xptxas=-O3", "-maxrregcount=64"]


def test_only_definitions_reach_the_host() -> None:
    assert flags.host(("-O3", "-D", "N=4", "-Wall", "-std=c++20")) == ["-DN=4"]


@pytest.mark.parametrize("flag", ["-ffast-math", "-march=native", "-fopenmp", "-include x.h", "-std=c++23"])
def test_other_host_flags_are_doubted(flag: str) -> None:
    with pytest.raises(Doubt, match="extra_cflags"):
        flags.host((flag,))


@pytest.mark.parametrize(
    ("given", "source", "number"),
    [
        ((), "", "90"),
        (("-gencode=arch=compute_90,code=sm_90",), "", "90"),
        (("-gencode", "arch=compute_90a,code=sm_90a"), "", "90a"),
        (("-arch=sm_90a",), "", "90a"),
        ((), "os.environ['TORCH_CUDA_ARCH_LIST'] = '9.0a'", "90a"),
        ((), 'os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0+PTX")', "90"),
    ],
)
def test_the_architecture_is_the_gpus(given: tuple[str, ...], source: str, number: str) -> None:
    assert flags.architecture(given, source, GPU) == number


@pytest.mark.parametrize(
    ("given", "source"),
    [
        (("-arch=native",), ""),
        (("-gencode=arch=compute_80,code=sm_80",), ""),
        ((), "os.environ['TORCH_CUDA_ARCH_LIST'] = '8.0'"),
        ((), "os.environ['TORCH_CUDA_ARCH_LIST'] = chosen"),
    ],
)
def test_the_architecture_of_another_gpu_is_doubted(given: tuple[str, ...], source: str) -> None:
    with pytest.raises(Doubt):
        flags.architecture(given, source, GPU)
