"""Candidates that hold one fault each at the border between Python and C++, all made from one that is
right."""

RIGHT = '''import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

__global__ void scale_kernel(const float* __restrict__ x, float* __restrict__ y, float factor, int64_t n) {
    int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}

torch::Tensor scale_cuda(torch::Tensor x, double factor) {
    auto input = x.contiguous();
    auto y = torch::empty_like(input);
    const int64_t n = input.numel();
    const int threads = 256;
    const int64_t blocks = (n + threads - 1) / threads;
    scale_kernel<<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
        input.data_ptr<float>(), y.data_ptr<float>(), static_cast<float>(factor), n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""
cpp_source = "torch::Tensor scale_cuda(torch::Tensor x, double factor);"

extension = load_inline(
    name="scale",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["scale_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return extension.scale_cuda(x, self.factor)
'''
HEAD = "torch::Tensor scale_cuda(torch::Tensor x, double factor) {"
DECLARED = '"torch::Tensor scale_cuda(torch::Tensor x, double factor);"'
GIVEN = "    cpp_sources=cpp_source,\n    cuda_sources=cuda_source,\n"
BOUND = 'functions=["scale_cuda"]'
END = "    return y;\n}\n"
CHECK = "#include <c10/cuda/CUDAException.h>\n"
STREAM = "#include <ATen/cuda/CUDAContext.h>\n"


def changed(*pairs: tuple[str, str]) -> str:
    """The right candidate with every pair exchanged; each has to occur."""
    text = RIGHT
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


ROUNDED = "int threads_of(int n) {\n    return n < 256 ? n : 256;\n}\n"
TWO_TYPES = """
__global__ void one_kernel(const float* x, float* y) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = tile[threadIdx.x];
}
__global__ void other_kernel(const double* x, double* y) {
    extern __shared__ double tile[];
    tile[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = tile[threadIdx.x];
}
"""
HALF = """
    if (x.scalar_type() == at::kHalf) {
        const __half* halves = x.data_ptr<__half>();
        (void)halves;
    }
    return y;
}
"""
DISPATCH = """
    AT_DISPATCH_FLOATING_TYPES(x.type(), "scale", [&] { (void)sizeof(scalar_t); });
    return y;
}
"""
MODULE = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scale_cuda", &scale_cuda); }\n'

INSIDE = "    def __init__(self, factor):\n        super().__init__()\n"


def inside(source: str) -> str:
    """The same file with its texts and its call of load_inline in `__init__`."""
    head, _, rest = source.partition('cuda_source = r"""')
    built, _, rest = rest.partition("\n\n\nclass ModelNew")
    built = 'cuda_source = r"""' + built
    for begin in ("cuda_source = ", "cpp_source = ", "extension = load_inline("):
        built = built.replace(f"\n{begin}", f"\n        {begin}", 1)
    assert INSIDE in rest
    rest = rest.replace(INSIDE, f"{INSIDE}        global extension\n        {built}\n")
    return f"{head.rstrip()}\n\n\nclass ModelNew{rest}"


def by_a_helper(source: str) -> str:
    """The same file with a function that builds, which gets the texts as its arguments."""
    call = source[source.index("extension = load_inline(") :].partition("\n)\n")[0]
    helper = call.replace(
        "extension = load_inline(", "def built(cuda_text, cpp_text):\n    return load_inline("
    )
    helper = helper.replace("cpp_sources=cpp_source", "cpp_sources=cpp_text")
    helper = helper.replace("cuda_sources=cuda_source", "cuda_sources=cuda_text")
    return source.replace(
        f"{call}\n)\n", f"{helper}\n    )\n\n\nextension = built(cuda_source, cpp_text=cpp_source)\n"
    )


MENDABLE: dict[str, tuple[str, str]] = {
    "no declaration": ("missing-declaration", changed((DECLARED, '"#include <torch/extension.h>"'))),
    "empty cpp_sources": ("missing-declaration", changed((DECLARED, '""'))),
    "cpp_sources is None": ("missing-declaration", changed(("cpp_sources=cpp_source", "cpp_sources=None"))),
    "no cpp_sources": ("cpp-sources-missing", changed(("    cpp_sources=cpp_source,\n", ""))),
    'extern "C" on the definition': ("extern-c", changed((HEAD, 'extern "C" ' + HEAD))),
    'extern "C" around the definition': (
        "extern-c", changed((HEAD, 'extern "C" {\n' + HEAD), (END, END + "}\n")),
    ),
    "a signature in functions": (
        "not-a-name", changed((BOUND, f"functions=[{DECLARED.replace(';', '')}]")),
    ),
    "a name that is no identifier": ("not-a-name", changed(('name="scale"', 'name="scale-op"'))),
    "a kernel in functions": (
        "kernel-bound-to-python", changed((BOUND, 'functions=["scale_cuda", "scale_kernel"]')),
    ),
    "a kernel in functions and declared": (
        "kernel-bound-to-python",
        changed(
            (BOUND, 'functions=["scale_kernel"]'),
            (DECLARED, '"__global__ void scale_kernel(const float* x, float* y, float factor, int64_t n);"'),
        ),
    ),
    "shared memory of two types": ("shared-type-clash", changed((HEAD, TWO_TYPES + HEAD))),
    "data_ptr of __half": (
        "data-ptr-type", changed((END, HALF), (STREAM, STREAM + "#include <cuda_fp16.h>\n")),
    ),
    "data_ptr of double": (
        "data-ptr-type", changed(("input.data_ptr<float>()", "input.data_ptr<double>()")),
    ),
    "declared with int": ("signature-mismatch", changed((DECLARED, DECLARED.replace("double", "int")))),
    "declared with int for int64_t": (
        "signature-mismatch",
        changed((HEAD, HEAD.replace("double", "int64_t")), (DECLARED, DECLARED.replace("double", "int"))),
    ),
    "a static definition": ("signature-mismatch", changed((HEAD, "static " + HEAD))),
    "a definition in a namespace": (
        "signature-mismatch", changed((HEAD, "namespace ops {\n" + HEAD), (END, END + "}\n")),
    ),
    "type() in a dispatch": ("deprecated-call", changed((END, DISPATCH))),
    "no include of the stream": ("missing-include", changed((STREAM, ""), (CHECK, ""))),
    "no include of cub": (
        "missing-include",
        changed(("    if (i < n)", "    using Reduce = cub::BlockReduce<float, 256>;\n    if (i < n)")),
    ),
    "no import of nn": ("missing-import", changed(("import torch.nn as nn\n", ""))),
    "no import of load_inline": (
        "missing-import", changed(("from torch.utils.cpp_extension import load_inline\n", "")),
    ),
    "no ModelNew": ("no-model-new", changed(("class ModelNew", "class ScaleModel"))),
    "defined in both sources": (
        "multiple-definition",
        changed(
            (HEAD, ROUNDED + HEAD),
            (DECLARED, f'r"""\n{DECLARED[1:-1]}\n{ROUNDED}"""'),
        ),
    ),
    "a module in cuda_sources": ("double-binding", changed((END, END + MODULE))),
    "a module in cpp_sources": (
        "double-binding", changed((DECLARED, f"'''\n{DECLARED[1:-1]}\n{MODULE}'''")),
    ),
    "device code in cpp_sources": (
        "device-code-in-cpp-sources",
        changed((GIVEN, '    cpp_sources=cuda_source,\n    cuda_sources="",\n')),
    ),
    "sources exchanged": (
        "device-code-in-cpp-sources",
        changed((GIVEN, "    cpp_sources=cuda_source,\n    cuda_sources=cpp_source,\n")),
    ),
}  # fmt: skip
"""What is wrong -> the kind of its headline, the candidate. Each has one right mend."""

NOT_MENDABLE: dict[str, tuple[str, str]] = {
    "a kernel called from Python": (
        "kernel-bound-to-python",
        changed((BOUND, 'functions=["scale_kernel"]'), ("extension.scale_cuda", "extension.scale_kernel")),
    ),
    "a name that nothing defines": (
        "missing-declaration",
        changed((BOUND, 'functions=["scale"]'), ("extension.scale_cuda", "extension.scale")),
    ),
    "two definitions that differ": (
        "multiple-definition",
        changed((DECLARED, f'r"""\n{HEAD} return x; }}\n"""')),
    ),
    "a name that is misspelt": ("undeclared-name", changed(("= blockIdx.x", "= blokIdx.x"))),
}
"""Faults that could be mended in more than one way, or that no rule knows."""
