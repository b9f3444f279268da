"""The candidate's own PYBIND11_MODULE: lambdas, keyword arguments with defaults, overloads, strings."""

import torch
from torch.utils.cpp_extension import load_inline

cpp = """
#include <torch/extension.h>
#include <vector>
#include <string>
namespace py = pybind11;

torch::Tensor leaky_launch(torch::Tensor x, float slope);

static int64_t calls = 0;
torch::Tensor leaky(torch::Tensor x, float slope) { ++calls; return leaky_launch(x, slope); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "leaky relu";
  m.def("leaky", &leaky, "forward (CUDA)", py::arg("x"), py::arg("slope") = 0.01);
  m.def("calls", []() { return calls; });
  m.def("describe", [](const torch::Tensor& t, const std::string& name, bool loud) -> std::string {
    std::ostringstream out;
    out << name << ' ' << t.sizes() << ' ' << t.scalar_type() << (loud ? "!" : ".");
    return out.str();
  });
  m.def("pick", [](int64_t i) { return i + 1; });
  m.def("pick", [](double d) { return d * 2; });
  m.def("total", [](const std::vector<int64_t>& sizes, std::vector<torch::Tensor> parts) {
    int64_t sum = 0;
    for (auto s : sizes) sum += s;
    for (auto& p : parts) sum += p.numel();
    return std::make_pair(sum, parts.size());
  });
}
"""
cuda = """
__global__ void leaky_kernel(const float* x, float* y, float slope, long n) {
  long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = fmaxf(x[i], 0.f) + slope * fminf(x[i], 0.f);
}
torch::Tensor leaky_launch(torch::Tensor x, float slope) {
  torch::Tensor y = torch::empty(x.sizes(), x.options());
  long n = x.numel();
  leaky_kernel<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), slope, n);
  return y;
}
"""
ext = load_inline(name="own", cpp_sources=cpp, cuda_sources=cuda)


def cases():
    x = torch.randn(1000, device="cuda")
    leaky = torch.nn.functional.leaky_relu
    return [
        (ext.leaky(x), leaky(x)),
        (ext.leaky(x=x, slope=0.3), leaky(x, 0.3)),
        (ext.calls(), 2),
        (ext.describe(x, "x", True), "x [1000] Float!"),
        (ext.pick(3), 4),
        (ext.pick(1.25), 2.5),
        (ext.total([1, 2], [x, x]), (2003, 2)),
    ]


def refusals():
    return [
        (
            lambda: ext.leaky(1.0),
            TypeError,
            "leaky(): incompatible function arguments. The following argument types are supported:\n    1. (x: torch.Tensor, slope:",
        ),
        (lambda: ext.leaky(), TypeError, "incompatible function arguments"),
        (lambda: ext.pick("a"), TypeError, "2. (arg0: typing.SupportsFloat) -> "),
        (lambda: ext.total([1.5], []), TypeError, "Invoked with: [1.5], []"),
    ]
