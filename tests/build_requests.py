"""Build requests for a small extension, as a candidate would make them, with parameters for tests."""

from agent.build.build_request import BuildRequest

KERNEL = """
__global__ void twice_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""
TWICE = (
    KERNEL
    + """torch::Tensor twice(torch::Tensor x) {
    auto y = torch::empty_like(x);
    twice_kernel<<<4, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""
)
DECLARED = "torch::Tensor twice(torch::Tensor x);"


def candidate(cpp: str, cuda: str, functions: str = "['twice']", more: str = "") -> str:
    return (
        "import torch\nfrom torch.utils.cpp_extension import load_inline\n\n"
        f'cuda_source = r"""{cuda}"""\ncpp_source = r"""{cpp}"""\n\n'
        f"ext = load_inline(name='t', cpp_sources=cpp_source, cuda_sources=cuda_source,\n"
        f"                  functions={functions}{more})\n"
    )


def request(
    cpp: str, cuda: str, functions: tuple[str, ...] | None = ("twice",), **options: object
) -> BuildRequest:
    shown = str(list(functions)) if functions is not None else "None"
    more = "".join(f", {key}={value!r}" for key, value in options.items())
    return BuildRequest.model_validate(
        {
            "name": "t",
            "cpp_sources": (cpp,),
            "cuda_sources": (cuda,) if cuda else (),
            "functions": functions,
            "candidate_source": candidate(cpp, cuda, shown, more),
            **options,
        }
    )
