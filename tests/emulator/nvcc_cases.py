"""Small extensions for the tests of nvcc: a kernel, what launches it, and how it is broken."""

from agent.build.build_request import BuildRequest

KERNEL = """
__global__ void twice_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""
HOST = """torch::Tensor twice(torch::Tensor x) {
    auto y = torch::empty_like(x);
    twice_kernel<<<4, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""


def asked(cuda: str, **options: object) -> BuildRequest:
    declared = "torch::Tensor twice(torch::Tensor x);"
    candidate = f'import torch\ncuda = r"""{cuda}"""\ncpp = "{declared}"\nload_inline(cpp, cuda, ["twice"])\n'
    return BuildRequest.model_validate(
        {
            "name": "t",
            "cpp_sources": (declared,),
            "cuda_sources": (cuda,),
            "functions": ("twice",),
            "candidate_source": candidate,
            **options,
        }
    )


# What is replaced in the kernel, what is added, the words of nvcc, and the line that they are about.
ERRORS = {
    "host function": (
        ("2 * x[i]", "host_only(x[i])"),
        "float host_only(float v) { return v; }",
        'calling a __host__ function("host_only(float)") from a __global__ function',
        "y[i] = host_only(x[i]);",
    ),
    "host variable": (
        ("2 * x[i]", "factor * x[i]"),
        "float factor = 2;",
        'identifier "factor" is undefined in device code',
        "y[i] = factor * x[i];",
    ),
    "kernel called as a function": (
        ("", ""),
        "__global__ void other(float* p) { p[0] = 1; }\nvoid call_it(float* p) { other(p); }",
        "a __global__ function call must be configured",
        "void call_it(float* p) { other(p); }",
    ),
    "intrinsic of old": (
        ("2 * x[i]", "__shfl_down(x[i], 1)"),
        "",
        'identifier "__shfl_down" is undefined',
        "y[i] = __shfl_down(x[i], 1);",
    ),
    "exception": (
        ("if (i < n)", "if (i < 0) throw 3;\n    if (i < n)"),
        "",
        "device code does not support exception handling",
        "if (i < 0) throw 3;",
    ),
    "result of a kernel": (
        ("void twice_kernel", "int twice_kernel"),
        "",
        "a __global__ function must have a void return type",
        "__global__ int twice_kernel(",
    ),
    "tensor in a kernel": (
        ("", ""),
        "__global__ void sized(torch::Tensor x, long* y) {\n    y[0] = x.size(0);\n}",
        'calling a __host__ function("at::Tensor::size(long) const") from a __global__ function("sized")',
        "y[0] = x.size(0);",
    ),
    "undefined device function": (
        ("2 * x[i]", "missing(x[i])"),
        "__device__ float missing(float);",
        "Device code calls `missing`, which is declared and not defined",
        "y[i] = missing(x[i]);",
    ),
    "launch from a kernel": (
        ("if (i < n)", "if (i == 3) twice_kernel<<<1, 1>>>(x, y, n);\n    if (i < n)"),
        "",
        "kernel launch from __device__ or __global__ functions requires separate compilation mode",
        "if (i == 3) twice_kernel<<<1, 1>>>",
    ),
}
