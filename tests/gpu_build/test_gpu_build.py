"""The slim build builds what nvcc would, finds faults of device code, and leaves doubts to stock builds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from build_requests import DECLARED, KERNEL, TWICE, request

import agent.emulator
from agent import gpu_build
from agent.build.build_request import BuildRequest
from agent.build.outcome import Built
from agent.gpu_build import Doubt, Gpu, GpuToolchain
from agent.gpu_build.device import DeviceUnit
from agent.harness.backends import launch_suppression

GPU = Gpu(capability="9.0")
HOST_CODE = (
    KERNEL
    + """
std::string described(torch::Tensor x) {
    const auto options = torch::TensorOptions().dtype(torch::kFloat64).device(x.device());
    auto y = torch::zeros({x.size(0), x.size(-1)}, options);
    std::vector<int64_t> shape = y.sizes().vec();
    TORCH_CHECK(shape.size() == 2 && y.dtype() == torch::kFloat64 && !y.is_cuda() && y.is_contiguous());
    return x.toString() + " on " + x.device().str() + c10::str(' ', x.sizes(), " of ", y.scalar_type());
}
using Maybe = c10::optional<torch::Tensor>;
torch::Tensor mixed(torch::Tensor x, double factor, std::vector<int64_t> dims, Maybe more) {
    TORCH_CHECK(x.scalar_type() == torch::kFloat32, "no float, but ", x.scalar_type(), " of ", x.sizes());
    TORCH_CHECK_VALUE(x.dim() == 2, "x has ", x.dim(), " dimensions, not ", 2, '!', 0.5, x.device());
    TORCH_CHECK(x.is_contiguous());
    at::Tensor held = x, other;
    other = held;
    auto rows = other.accessor<float, 2>();
    const float* data = x.data_ptr<float>();
    auto y = (x * factor + rows[1][2] - data[6]).sum(at::IntArrayRef{1}, true);
    if (more.has_value()) y = at::cat({y, *more}, 1);
    if (!dims.empty()) y = y.unsqueeze(dims.back()).index({torch::indexing::Slice(0, 2), "..."});
    const auto added = [&](auto one) { return y.add(one); };
    return AT_DISPATCH_FLOATING_TYPES(y.scalar_type(), "mixed", [&] { return added(scalar_t(1)); });
}
"""
)
HOST_DECLARED = """
std::string described(torch::Tensor x);
torch::Tensor mixed(
    torch::Tensor x, double factor, std::vector<int64_t> dims, c10::optional<torch::Tensor> more);
"""


def built(toolchain: GpuToolchain, cache: Path, asked: BuildRequest) -> Built:
    return gpu_build.extension(toolchain, asked, GPU, cache, 300)


def objects(cache: Path) -> int:
    return len([path for path in (cache / "objects").iterdir() if (path / "entry.json").is_file()])


def test_a_change_of_device_code_compiles_the_device_unit_only(
    toolchain: GpuToolchain, tmp_path: Path
) -> None:
    first = built(toolchain, tmp_path, request(DECLARED, TWICE))
    assert first.library is not None
    assert first.backend == "gpu-slim"
    assert [kernel.name for kernel in first.kernels] == ["twice_kernel"]
    assert first.kernels[0].registers
    assert objects(tmp_path) == 2
    changed = built(toolchain, tmp_path, request(DECLARED, TWICE.replace("2 * x", "3 * x")))
    assert changed.library not in (None, first.library)
    assert objects(tmp_path) == 3


def test_both_front_ends_run_beside_each_other(toolchain: GpuToolchain, tmp_path: Path) -> None:
    """The steps are the known ones, and give the object that nvcc itself gives, its id aside."""
    command = DeviceUnit(toolchain, request(DECLARED, TWICE), GPU).command(tmp_path, full=False)
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "device.txt").is_file()
    together = (tmp_path / "cuda.cubin").read_bytes()
    subprocess.run([*command[3:], "--keep", "--keep-dir", "."], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "cuda.cubin").read_bytes() == together


def test_steps_that_are_not_known_are_left_to_nvcc(toolchain: GpuToolchain, tmp_path: Path) -> None:
    command = DeviceUnit(toolchain, request(DECLARED, TWICE), GPU).command(tmp_path, full=False)
    subprocess.run(
        [*command, "-gencode=arch=compute_80,code=sm_80"], cwd=tmp_path, check=True, capture_output=True
    )
    assert (tmp_path / "cuda.o").is_file()
    assert not (tmp_path / "device.txt").exists()


def test_host_code_in_cuda_sources_means_what_torch_means(toolchain: GpuToolchain, tmp_path: Path) -> None:
    """It links declarations against the library; its errors and values are those of torch."""
    made = built(toolchain, tmp_path, request(HOST_DECLARED, HOST_CODE, ("described", "mixed")))
    assert made.library is not None, made.findings
    torch_shim = str(Path(agent.__file__).parent)
    script = str(Path(__file__).with_name("calls.py"))
    command = [sys.executable, "-I", script, torch_shim, str(toolchain.cudart), str(made.library)]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    # The sums of rows of 0..11, times 2.5, plus one.
    assert said == [
        "CUDAFloatType on cpu [3, 4] of Double",
        [[[16.0]], [[56.0]]],
        [[7.0, 1.0, 2.0, 3.0, 4.0], [23.0, 5.0, 6.0, 7.0, 8.0], [39.0, 9.0, 10.0, 11.0, 12.0]],
        "RuntimeError: no float, but Int of [3, 4]",
        "ValueError: x has 1 dimensions, not 2!0.5cpu",
        "RuntimeError: Expected x.is_contiguous() to be true, but got false.",
    ]


def test_launches_can_be_left_out(toolchain: GpuToolchain, tmp_path: Path) -> None:
    """What is preloaded stands in front of CUDA's launches, as it does for stock builds."""
    made = built(toolchain, tmp_path, request(DECLARED, TWICE))
    preloaded = launch_suppression.library(tmp_path)
    assert preloaded is not None
    script = (
        "import ctypes, sys; sys.path.insert(0, sys.argv[1]); ctypes.CDLL(sys.argv[2]); import torch\n"
        "from torch_shim import extension\n"
        "module, preloaded = extension.module('t', sys.argv[3]), ctypes.CDLL(None)\n"
        "preloaded.kw_suppress(1); module.twice(torch.zeros(4)); print(preloaded.kw_suppress(0))\n"
    )
    torch_shim = str(Path(agent.__file__).parent)
    command = [sys.executable, "-I", "-c", script, torch_shim, str(toolchain.cudart), str(made.library)]
    environment = {"LD_PRELOAD": str(preloaded)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["1"]


def test_an_error_of_device_code_is_the_candidates(toolchain: GpuToolchain, tmp_path: Path) -> None:
    asked = request(DECLARED, TWICE.replace("2 * x[i]", "twofold * x[i]"))
    [finding] = built(toolchain, tmp_path, asked).findings
    assert finding.kind == "compile-error"
    assert 'identifier "twofold" is undefined' in finding.message
    assert finding.location is not None
    assert finding.location.text == "if (i < n) y[i] = twofold * x[i];"


def test_device_code_of_a_later_standard_is_no_error(toolchain: GpuToolchain, tmp_path: Path) -> None:
    concept = "template <class T> requires(sizeof(T) == 4)\n__device__ T same(T value) { return value; }\n"
    asked = request(DECLARED, concept + TWICE.replace("2 * x[i]", "same(x[i])"))
    assert built(toolchain, tmp_path, asked).library is not None


def test_what_g_plus_plus_cannot_mistake_is_a_finding(toolchain: GpuToolchain, tmp_path: Path) -> None:
    [finding] = built(toolchain, tmp_path, request("", TWICE)).findings
    assert finding.kind == "missing-declaration"


@pytest.mark.parametrize(
    ("cpp", "cuda", "options", "reason"),
    [
        (DECLARED, TWICE, {"extra_ldflags": ["-lcublas"]}, "-lcublas"),
        (DECLARED, TWICE, {"extra_cuda_cflags": ["-arch=sm_80"]}, "sm_80"),
        (DECLARED, TWICE, {"extra_cuda_cflags": ["-rdc=true"]}, "-rdc=true"),
        (DECLARED, TWICE, {"extra_include_paths": ["/opt/own"]}, "/opt/own"),
        (DECLARED, TWICE.replace("torch::empty_like(x)", "torch::from_blob(0, {1})"), {}, "from_blob"),
        (
            DECLARED,
            TWICE.replace("<<<4, 64>>>", "<<<4, 64, 0, c10::cuda::getStreamFromPool()>>>"),
            {},
            "Pool",
        ),
        (DECLARED, "#include <cublas_v2.h>\ncublasHandle_t handle;\n" + TWICE, {}, "cublas_v2"),
        (DECLARED, TWICE.replace("empty_like(x)", "no_such_function(x)"), {}, "no_such_function"),
        (DECLARED + "\nint n = torch::nn::no_such;", TWICE, {}, "torch::nn"),
        (DECLARED + "\nint n = c10::no_such();", TWICE, {}, "no_such"),
        (DECLARED.replace("twice", "thrice"), TWICE, {"functions": ("thrice",)}, "thrice"),
    ],
)
def test_a_doubt_is_left_to_stock_builds(
    toolchain: GpuToolchain, tmp_path: Path, cpp: str, cuda: str, options: dict[str, object], reason: str
) -> None:
    options = dict(options)
    functions = options.pop("functions", ("twice",))
    assert isinstance(functions, tuple)
    with pytest.raises(Doubt, match=reason):
        built(toolchain, tmp_path, request(cpp, cuda, functions, **options))
