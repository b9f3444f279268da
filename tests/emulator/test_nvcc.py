"""What nvcc alone finds in device code, what it says of kernels, and what it leaves open."""

from pathlib import Path

import pytest
from emulator.nvcc_cases import ERRORS, HOST, KERNEL, asked

from agent.build import compiler, nvcc
from agent.build.toolchain import Toolchain
from agent.emulator.compile import build, device_check
from agent.harness.task.job import BUILD_LIMIT_S

SPILLING = """
__global__ void __launch_bounds__(1024, 2) spilling(const float* x, float* y) {
    __shared__ float turn[96];
    float v[64];
    #pragma unroll
    for (int i = 0; i < 64; ++i) v[i] = x[threadIdx.x + i * 1024];
    turn[threadIdx.x % 96] = v[3];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 64; ++i) y[threadIdx.x + i * 1024] = v[63 - i] * v[i] + turn[i];
}
template <typename scalar_t, int N>
__global__ void copies(const scalar_t* x, scalar_t* y) { y[N] = x[N]; }
"""


def checked(toolchain: Toolchain, cuda: str, scratch: Path, **options: object) -> nvcc.Verdict:
    """By nvcc alone."""
    return device_check.alone(toolchain, asked(cuda, **options), scratch, BUILD_LIMIT_S)


def test_resources_of_kernels(toolchain: Toolchain, tmp_path: Path, nvidia: nvcc.Nvcc) -> None:
    host = HOST.replace(
        "return y;",
        'AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "copies", [&] {\n'
        "        copies<scalar_t, 3><<<1, 1>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>()); });\n"
        "    return y;",
    )
    built = build.extension(toolchain, asked(SPILLING + KERNEL + host), tmp_path)
    kernels = {kernel.name: kernel for kernel in built.kernels}
    copies = {f"copies<{scalar}, 3>" for scalar in ("double", "float", "c10::Half")}
    assert set(kernels) == {"spilling", "twice_kernel", *copies}
    spilling, plain = kernels["spilling"], kernels["twice_kernel"]
    assert spilling.registers == 32
    assert spilling.spill_bytes is not None
    assert spilling.spill_bytes > 0
    assert spilling.shared_bytes == 96 * 4
    assert (plain.spill_bytes, plain.shared_bytes) == (0, 0)
    assert built.notes == ()
    again = build.extension(toolchain, asked(SPILLING + KERNEL + host), tmp_path)
    assert again.kernels == built.kernels


@pytest.mark.parametrize("name", ERRORS)
def test_error_that_only_nvidia_knows(
    toolchain: Toolchain, tmp_path: Path, nvidia: nvcc.Nvcc, name: str
) -> None:
    (before, after), more, message, line = ERRORS[name]
    kernel = KERNEL.replace(before, after) if before else KERNEL
    found = checked(toolchain, f"\n{more}{kernel}{HOST}", tmp_path).findings
    assert [finding.kind for finding in found] == ["compile-error"]
    assert message in found[0].message
    assert found[0].location is not None
    assert line in str(found[0].location.text)


def test_too_much_static_shared_memory(toolchain: Toolchain, tmp_path: Path, nvidia: nvcc.Nvcc) -> None:
    kernel = KERNEL.replace(
        "int i", "__shared__ float tile[20000];\n    tile[threadIdx.x] = x[0];\n    int i"
    )
    kernel = kernel.replace("2 * x[i]", "tile[n]").replace("if (i", "__syncthreads();\n    if (i")
    (found,) = checked(toolchain, kernel + HOST, tmp_path).findings
    assert found.kind == "shared-memory-limit"
    assert (
        "`twice_kernel` declares 80000 bytes of static shared memory; a block has at most 49152"
        in found.message
    )
    assert found.location is not None
    assert "void twice_kernel(" in str(found.location.text)


def test_host_code_that_needs_fuller_headers(toolchain: Toolchain, tmp_path: Path, nvidia: nvcc.Nvcc) -> None:
    words = "auto words(torch::Tensor x) { return (std::ostringstream() << x.sizes()).str(); }\n"
    request = asked("#include <sstream>\n" + words + KERNEL + HOST)
    (command,) = device_check.DeviceCheck(toolchain, request, tmp_path, tmp_path).commands()
    declared = nvcc.read(
        compiler.run([command], tmp_path, BUILD_LIMIT_S, toolchain.visible)[0], request, tmp_path
    )
    assert declared.gap is not None
    assert declared.is_ours
    assert declared.findings == ()
    verdict = checked(toolchain, request.cuda, tmp_path)
    assert verdict.accepted
    assert [kernel.name for kernel in verdict.kernels] == ["twice_kernel"]


def test_gap_of_the_headers_is_no_fault(toolchain: Toolchain, tmp_path: Path, nvidia: nvcc.Nvcc) -> None:
    host = HOST.replace("return y;", "return torch::nn::functional::gelu(y);")
    request = asked(KERNEL.replace("2 * x[i]", "c10::nothing_known(x[i])") + host)
    verdict = device_check.alone(toolchain, request, tmp_path, BUILD_LIMIT_S)
    assert verdict.findings == ()
    assert verdict.gap is not None
    (note,) = device_check.notes(request, verdict)
    assert note.startswith("NVIDIA's compiler did not check the device code: ")


def test_warnings_in_device_code(toolchain: Toolchain, tmp_path: Path, nvidia: nvcc.Nvcc) -> None:
    kernel = KERNEL.replace("int i", "int idle = 3;\n    int i")
    host = HOST.replace("return y;", "int unused = 3;\n    return y;")
    verdict = checked(toolchain, kernel + host, tmp_path)
    assert verdict.accepted
    assert verdict.warnings == ('line 4: variable "idle" was declared but never referenced',)
