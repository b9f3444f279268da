"""Host code that asks torch for more than the slim headers have; every function is a case."""

from collections.abc import Callable, Iterator

import torch
from torch.utils.cpp_extension import load_inline

CPP = """
#include <cuda_runtime.h>
#include <torch/library.h>

torch::Tensor scaled(torch::Tensor x, double factor);

torch::Tensor padded(torch::Tensor x) {
  namespace F = torch::nn::functional;
  return F::pad(scaled(x, 2.0), F::PadFuncOptions({1, 2}).value(5.0));
}

std::vector<std::optional<torch::Tensor>> of_each(const std::vector<std::optional<torch::Tensor>>& given) {
  std::vector<std::optional<torch::Tensor>> made;
  for (const auto& x : given) made.push_back(x ? std::optional(scaled(*x, 3.0)) : std::nullopt);
  return made;
}

torch::Tensor devices(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda() && x.device() == torch::Device(torch::kCUDA, 0) && x.get_device() == 0);
  TORCH_CHECK(x.cpu().is_cpu() && !torch::zeros({1}).is_cuda());
  TORCH_CHECK(torch::ones({2}, torch::kCUDA).is_cuda() && torch::cuda::is_available());
  auto total = torch::empty({0}, x.options());
  torch::sum_out(total, x, {0});
  TORCH_CHECK(total.is_cuda() && total.size(0) == x.size(1), "out= did not resize");
  total.index_put_({0}, 7.0);
  return total.to(torch::kCPU).to(x.device());
}

torch::Tensor doubled_in_place(torch::Tensor x) { return x.mul_(2); }

torch::Tensor half_written(torch::Tensor x) {
  auto y = torch::empty({2}, x.options());
  y.index_put_({0}, 1.0);
  return y;
}

torch::Tensor own_memory(int64_t n) {
  float* memory = nullptr;
  cudaMalloc(reinterpret_cast<void**>(&memory), n * sizeof(float));
  cudaMemset(memory, 0, n * sizeof(float));
  auto options = torch::TensorOptions().device(torch::kCUDA).dtype(torch::kFloat);
  return torch::from_blob(memory, {n}, [](void* p) { cudaFree(p); }, options) + 1;
}

struct Scaler {
  double factor;
  torch::Tensor apply(torch::Tensor x) const { return scaled(x, factor); }
};

TORCH_LIBRARY(kw_test, m) { m.def("scaled", &scaled); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("padded", &padded);
  m.def("of_each", &of_each);
  m.def("devices", &devices);
  m.def("doubled_in_place", &doubled_in_place);
  m.def("half_written", &half_written);
  m.def("own_memory", &own_memory);
  m.def("scaled", &scaled, pybind11::arg("x"), pybind11::arg("factor") = 4.0);
  pybind11::class_<Scaler>(m, "Scaler").def(pybind11::init<double>()).def("apply", &Scaler::apply);
}
"""

CUDA = """
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")

template <typename T>
using Rows = torch::PackedTensorAccessor32<T, 2, torch::RestrictPtrTraits>;

template <typename T>
__global__ void scale(const Rows<T> x, Rows<T> y, float factor, int beyond) {
  __shared__ T tile[64];
  const int column = threadIdx.x, row = blockIdx.x;
  if (column < x.size(1)) tile[column] = x[row][column];
  __syncthreads();
  if (column < x.size(1)) y[row][column + beyond] = static_cast<T>(static_cast<float>(tile[column]) * factor);
}

torch::Tensor scaled(torch::Tensor x, double factor) {
  CHECK_CUDA(x);
  TORCH_CHECK(x.dim() == 2, "x must have two dimensions");
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  auto y = torch::empty_like(x);
  const int beyond = factor < 0 ? 1 : 0;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "scaled", [&] {
    scale<scalar_t><<<x.size(0), 64, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
        y.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(), static_cast<float>(factor), beyond);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
"""

made = load_inline(name="beyond_slim", cpp_sources=CPP, cuda_sources=CUDA)  # type: ignore[no-untyped-call]


def cases() -> Iterator[tuple[object, object]]:
    x = torch.randn(3, 7, device="cuda")
    yield made.padded(x), torch.nn.functional.pad(x * 2, (1, 2), value=5.0)
    answers = made.of_each([x, None])
    yield answers[0], x * 3
    yield answers[1], None
    total = x.sum(0)
    total[0] = 7
    yield made.devices(x), total
    before = x.clone()
    yield made.doubled_in_place(x) is x, True
    yield x, before * 2
    yield made.own_memory(5), torch.ones(5)
    yield made.scaled(x), x * 4
    yield made.scaled(factor=0.5, x=x.half()), x.half() * 0.5
    yield made.scaled(x.bfloat16(), 2.0), x.bfloat16() * 2
    yield made.Scaler(1.5).apply(x), x * 1.5
    yield torch.ops.kw_test.scaled(x, 2.5), x * 2.5
    yield made.scaled(x, -1.0).shape, x.shape


def unwritten() -> torch.Tensor:
    answer: torch.Tensor = made.half_written(torch.ones(1))
    return answer


def refusals() -> list[tuple[Callable[[], object], type[Exception], str]]:
    return [
        (lambda: made.scaled(torch.ones(3), 1.0), RuntimeError, "x must have two dimensions"),
        (lambda: made.padded(3), TypeError, "incompatible function arguments"),
    ]
