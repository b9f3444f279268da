"""What ran on a GPU is held against the source, and a call without its launches against the truth."""

from typing import Any

import pytest
import torch

from agent.build.build_request import BuildRequest
from agent.harness.integrity import kernel_attribution
from agent.harness.task.faults import Refused
from agent.harness.worker import profiled
from agent.records import LibraryOps

SOURCE = """
template <typename T, int N>
__global__ void __launch_bounds__(256, 2) scale_rows(const T* x, T* y, int n) {}
namespace deep { __global__ static void tail(float* y) {} }
extern "C" __global__ void plain(float* y);
__device__ float helper(float x) { return x; }
"""
GELU = "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>(int)"
SGEMM = "ampere_sgemm_128x64_tn"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >(int)"


def request() -> BuildRequest:
    return BuildRequest(candidate_source=SOURCE, name="x", cpp_sources=(), cuda_sources=(SOURCE,))


def ran(*names: str) -> list[dict[str, Any]]:
    return [launched(name, us=10.0 * number) for number, name in enumerate(names, 1)]


def launched(name: str, *within: str, us: float = 1.0) -> dict[str, Any]:
    return {"name": name, "us": us, "stream": 7, "operators": list(within)}


def test_kernels_are_known_by_their_names_in_the_source() -> None:
    assert kernel_attribution.declared([SOURCE]) == {"scale_rows", "tail", "plain"}
    names = ("void scale_rows<float, 4>(float const*, float*, int)", "deep::tail(float*)", "plain(float*)",
             "void (anonymous namespace)::plain(float*)", "helper(float)", SGEMM)  # fmt: skip
    own = {
        kernel.name: kernel.own
        for kernel in kernel_attribution.profile(ran(*names), kernel_attribution.declared([SOURCE])).kernels
    }
    assert [own[name] for name in names] == [True, True, True, True, False, False]


def test_kernels_that_macros_make_are_known_by_being_nobody_elses() -> None:
    text = "#define KERNEL(name) \\\n  __global__ void name##_kernel(float* y) {}\nKERNEL(scale)\n"
    made = BuildRequest(candidate_source=text, name="x", cpp_sources=(), cuda_sources=(text,))
    seen = kernel_attribution.checked(ran("scale_kernel(float*)", FILL), [made], "none")
    assert [kernel.own for kernel in seen.kernels] == [False, True]
    with pytest.raises(Refused):
        kernel_attribution.checked(ran(SGEMM, GELU), [made], "any")


def test_the_share_of_own_kernels_is_that_of_time() -> None:
    seen = kernel_attribution.checked(ran("plain(float*)", FILL, "plain(float*)"), [request()], "none")
    assert seen.own_share == pytest.approx(40 / 60)
    assert [(kernel.launches, kernel.own) for kernel in seen.kernels] == [(2, True), (1, False)]
    assert seen.streams == 1


@pytest.mark.parametrize(
    ("names", "setting", "kind"),
    [
        ((), "any", "no-kernel-launched"),
        ((SGEMM,), "any", "no-kernel-launched"),
        (("plain(float*)", GELU), "gemm-conv", "own-kernels-do-not-compute-the-result"),
        (("plain(float*)", SGEMM), "none", "own-kernels-do-not-compute-the-result"),
        (("plain(float*)", SGEMM, FILL), "gemm-conv", ""),
        (("plain(float*)", GELU), "any", ""),
        (("plain(float*)", FILL, "Memset (Device)"), "none", ""),
    ],
)
def test_others_may_run_as_far_as_the_setting_allows(
    names: tuple[str, ...], setting: LibraryOps, kind: str
) -> None:
    if not kind:
        assert kernel_attribution.checked(ran(*names), [request()], setting).kernels
        return
    with pytest.raises(Refused) as refused:
        kernel_attribution.checked(ran(*names), [request()], setting)
    assert refused.value.findings[0].kind == kind


def bias(*within: str) -> dict[str, Any]:
    """An addition that torch launches; its name is longer than what is shown of it."""
    head = "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<"
    return launched(f"{head}at::native::CUDAFunctor_add<float> >{'(at::TensorIteratorBase&)' * 20}", *within)


WITHIN = ("add_", "_convolution", "convolution", "conv2d")


def test_the_bias_of_a_convolution_belongs_to_it() -> None:
    claims = [launched("plain(float*)"), launched("cudnn::conv2d_grouped_direct"), bias(*WITHIN)]
    assert kernel_attribution.checked(claims, [request()], "gemm-conv").kernels
    with pytest.raises(Refused):
        kernel_attribution.checked(claims, [request()], "none")


# What an H200 ran for one `conv2d` of level 3's GoogLeNet: neither name says that it is cuDNN's.
BY_FFT = ("void flip_filter<float, float>(float*, float const*)", "void fft2d_r2c_16x16<float>(float2*)")


def test_a_convolution_by_fft_is_a_convolution() -> None:
    def claims(*within: str) -> list[dict[str, Any]]:
        return [launched("plain(float*)"), *(launched(name, *within) for name in BY_FFT)]

    assert kernel_attribution.checked(claims(*WITHIN), [request()], "gemm-conv").kernels
    with pytest.raises(Refused):
        kernel_attribution.checked(claims("fft_rfft2"), [request()], "gemm-conv")


@pytest.mark.parametrize(
    "others", [[bias("add_")], [bias()], [bias(*WITHIN), bias("add")], [launched(GELU, *WITHIN)]]
)
def test_what_else_torch_adds_or_computes_does_not(others: list[dict[str, Any]]) -> None:
    with pytest.raises(Refused):
        kernel_attribution.checked([launched("plain(float*)"), *others], [request()], "gemm-conv")


def test_operators_are_told_from_within_outwards_and_named_ranges_are_none() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        with torch.profiler.record_function("aten::convolution"):
            torch.addmm(torch.ones(2, 2), torch.ones(2, 2), torch.ones(2, 2))
        torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3))
    events = list(seen.events() or [])
    outermost = [
        profiled.operators(event)[-1:] for event in events if event.name in ("aten::addmm", "aten::mm")
    ]
    assert outermost == [["addmm"], ["linear"]]


@pytest.mark.parametrize(
    ("answer", "right", "refused"),
    [
        ({"outputs": {}, "left_out": 1}, True, True),
        ({"outputs": {}, "left_out": 1}, False, False),
        ({"outputs": {}, "left_out": 0}, True, False),
        ({"error": {"type": "RuntimeError"}}, True, False),
    ],
)
def test_ablation(answer: dict[str, Any], right: bool, refused: bool) -> None:
    def check() -> None:
        kernel_attribution.check_ablation(lambda command, doing: answer, lambda outputs: right, [4])

    if refused:
        with pytest.raises(Refused, match="launch of this file's kernels left out"):
            check()
    else:
        check()
