"""No CUDA source at all; then a second extension under the same name, with its own variables."""

import torch
from torch.utils.cpp_extension import load_inline

TEXT = """
#include <unordered_map>
int64_t counter = 0;
int64_t next() { return counter += STEP; }
torch::Tensor table(torch::Tensor x) {
  static std::unordered_map<int64_t, torch::Tensor> kept;
  auto found = kept.find(x.numel());
  if (found == kept.end()) found = kept.emplace(x.numel(), x.clone()).first;
  return found->second;
}
torch::Tensor maybe(bool give) { return give ? torch::arange(3) : torch::Tensor(); }
std::vector<float> list(at::IntArrayRef sizes, c10::optional<double> scale, at::ScalarType type) {
  torch::NoGradGuard guard;
  auto x = torch::ones(sizes, torch::dtype(type)) * scale.value_or(1.0);
  return {x.sum().item<float>(), (float)x.element_size()};
}
"""
FUNCTIONS = ["next", "table", "maybe", "list"]
first = load_inline("same", "#define STEP 1\n" + TEXT, functions=FUNCTIONS)
second = load_inline(name="same", cpp_sources=[TEXT], functions=FUNCTIONS, extra_cflags=["-DSTEP=10"])


def cases():
    x = torch.randn(4, device="cuda")
    kept = first.table(x)
    return [
        ([first.next(), second.next(), first.next(), second.next()], [1, 10, 2, 20]),
        (kept, x),
        (first.table(torch.zeros(4)), x),
        (first.maybe(True), torch.arange(3)),
        (first.maybe(False), None),
        (first.list([2, 3], None, torch.float64), [6.0, 8.0]),
        (first.list((2, 3), 0.5, torch.float16), [3.0, 2.0]),
    ]
