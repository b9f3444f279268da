"""ATen from C++, one expression a line, against the same in Python."""

import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

TABLE = r"""
x.sum()  ~  x.sum()
x.sum(1)  ~  x.sum(1)
x.sum({0, 1})  ~  x.sum((0, 1))
x.sum(-1, true)  ~  x.sum(-1, True)
x.mean({1}, true)  ~  x.mean(1, True)
x.mean(std::vector<int64_t>{0}, false, at::kDouble)  ~  x.mean(0, dtype=torch.float64)
x.var(1, false)  ~  x.var(1, unbiased=False)
torch::var(x, {1}, true, true)  ~  x.var(1, keepdim=True)
torch::std(x, 1)  ~  x.std(1)
x.norm(2, 1)  ~  x.norm(2, 1)
torch::norm(x)  ~  x.norm()
x.pow(2)  ~  x**2
torch::pow(2.0, x)  ~  2.0**x
torch::clamp(x, -0.5, 0.5)  ~  x.clamp(-0.5, 0.5)
x.clamp_min(0)  ~  x.clamp_min(0)
torch::logsumexp(x, 1, true)  ~  x.logsumexp(1, True)
at::log_softmax(x, -1)  ~  x.log_softmax(-1)
torch::gelu(x, "tanh")  ~  F.gelu(x, approximate="tanh")
torch::linear(x, w)  ~  F.linear(x, w)
torch::linear(x, w, b)  ~  F.linear(x, w, b)
at::addmm(b, x, w.t(), 0.5, 2)  ~  torch.addmm(b, x, w.T, beta=0.5, alpha=2)
torch::conv2d(im, k, {}, {2, 2}, {1, 1})  ~  F.conv2d(im, k, None, 2, 1)
at::conv2d(im, k, kb, /*stride=*/1, /*padding=*/1)  ~  F.conv2d(im, k, kb, 1, 1)
at::convolution(im, k, kb, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1)  ~  F.conv2d(im, k, kb)
torch::max_pool2d(im, {2, 2}, {2, 2})  ~  F.max_pool2d(im, 2, 2)
at::avg_pool2d(im, 2)  ~  F.avg_pool2d(im, 2)
at::group_norm(im, 3, {}, {}, 1e-3)  ~  F.group_norm(im, 3, eps=1e-3)
at::layer_norm(x, {x.size(1)}, b5, b5)  ~  F.layer_norm(x, (5,), b5, b5)
std::get<0>(at::native_layer_norm(x, {5}, b5, b5, 1e-5))  ~  F.layer_norm(x, (5,), b5, b5)
x.view({-1})  ~  x.view(-1)
x.view(-1)  ~  x.view(-1)
x.flatten(0, 1)  ~  x.flatten()
x.unsqueeze(-1).expand({-1, -1, 3})  ~  x.unsqueeze(-1).expand(-1, -1, 3)
x.repeat({2, 1})  ~  x.repeat(2, 1)
x.narrow(1, 1, 2)  ~  x.narrow(1, 1, 2)
x.slice(1, 0, 4, 2)  ~  x[:, 0:4:2]
std::get<1>(x.topk(2, -1))  ~  x.topk(2)[1]
std::get<0>(torch::sort(x, 1, true))  ~  x.sort(1, True)[0]
std::get<1>(at::var_mean(x, {1}, false))  ~  x.mean(1)
torch::max(x, w.slice(0, 0, 4))  ~  torch.max(x, w[:4])
x.split(3, 1)[1]  ~  x.split(3, 1)[1]
torch::chunk(x, 2, 0)[1]  ~  x.chunk(2, 0)[1]
x.unbind(0)[2]  ~  x[2]
at::cat(std::vector<at::Tensor>{x, w}, 0)  ~  torch.cat([x, w])
x.to(at::kHalf)  ~  x.half()
x.to(torch::kCUDA)  ~  x
x.to(w.options().dtype(at::kDouble))  ~  x.double()
x.to(torch::kCPU, torch::kLong)  ~  x.long()
x.type_as(idx)  ~  x.long()
x.index_select(0, idx)  ~  x.index_select(0, idx)
x.gather(1, idx.unsqueeze(1))  ~  x.gather(1, idx.unsqueeze(1))
x.masked_fill(x > 0, -1)  ~  x.masked_fill(x > 0, -1)
x.index({idx})  ~  x[idx]
x.index({"...", 1})  ~  x[..., 1]
x.index({torch::indexing::Slice(), torch::indexing::None, 0})  ~  x[:, None, 0]
x[1][2]  ~  x[1, 2]
torch::arange(5, torch::kInt32)  ~  torch.arange(5, dtype=torch.int32)
torch::arange(0, 9, 2, x.options())  ~  torch.arange(0, 9, 2, dtype=torch.float32)
torch::linspace(0, 1, 5)  ~  torch.linspace(0, 1, 5)
torch::full({2}, 3)  ~  torch.full((2,), 3)
torch::full_like(x, -INFINITY)  ~  torch.full_like(x, float("-inf"))
torch::eye(3)  ~  torch.eye(3)
torch::tensor({1, 2}, torch::kInt64)  ~  torch.tensor([1, 2])
torch::tensor(2.5)  ~  torch.tensor(2.5)
torch::zeros({}, x.options())  ~  torch.zeros(())
x.new_full({2}, 7)  ~  x.new_full((2,), 7)
torch::zeros(3, torch::kCUDA)  ~  torch.zeros(3)
at::stack({x.select(0, 0), x[1]}, 1)  ~  torch.stack([x[0], x[1]], 1)
(1 - x) / (x + 2) * x - 3  ~  (1 - x) / (x + 2) * x - 3
(x >= 0).to(at::kFloat)  ~  (x >= 0).float()
-x  ~  -x
x.t().contiguous()  ~  x.t()
at::einsum("ij,kj->ik", {x, w})  ~  x @ w.T
torch::nan_to_num(x / 0)  ~  torch.nan_to_num(x / 0)
at::scaled_dot_product_attention(q, q, q, {}, 0.0, true)  ~  F.scaled_dot_product_attention(q, q, q, is_causal=True)
at::dropout(x, 0.5, false)  ~  x
torch::bernoulli(torch::ones_like(x))  ~  torch.ones_like(x)
at::mse_loss(x, x + 1)  ~  torch.tensor(1.0)
at::one_hot(idx, 5)  ~  F.one_hot(idx, 5)
at::pad(x, {1, 1}, "constant", 2.0)  ~  F.pad(x, (1, 1), value=2.0)
at::upsample_nearest2d(im, {12, 12})  ~  F.interpolate(im, (12, 12))
torch::embedding(w, idx)  ~  F.embedding(idx, w)
x.copy_(x).mul_(1).add_(x, 0)  ~  x
at::mm_out(out, x, w.t())  ~  x @ w.T
"""
PAIRS = [line.split("  ~  ") for line in TABLE.strip().splitlines()]
BODY = "\n".join(f"all.push_back({ours});" for ours, _ in PAIRS)
cpp = f"""
#include <cmath>
using at::Tensor;
std::vector<Tensor> all_of(Tensor x, Tensor w, Tensor b, Tensor b5, Tensor im, Tensor k, Tensor kb, Tensor idx, Tensor q) {{
    std::vector<Tensor> all;
    auto out = at::empty({{x.size(0), w.size(0)}}, x.options());
    {BODY}
    return all;
}}
"""
ext = load_inline(name="aten_calls", cpp_sources=cpp, functions=["all_of"])


def cases():
    x, w, b, b5 = (torch.randn(*size, device="cuda") for size in ((4, 5), (6, 5), (6,), (5,)))
    im, k, kb = torch.randn(2, 6, 8, 8), torch.randn(3, 6, 3, 3), torch.randn(3)
    idx, q = torch.tensor([2, 0, 1, 3]), torch.randn(1, 2, 4, 8)
    names = {
        "x": x,
        "w": w,
        "b": b,
        "b5": b5,
        "im": im,
        "k": k,
        "kb": kb,
        "idx": idx,
        "q": q,
        "F": F,
        "torch": torch,
    }
    expected = [eval(theirs, names) for _, theirs in PAIRS]
    return list(zip(ext.all_of(x, w, b, b5, im, k, kb, idx, q), expected, strict=True))
