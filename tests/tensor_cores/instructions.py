"""The products of tensor cores that are measured, with a kernel for each: 64 rows of a, 8 columns of b."""
# ruff: noqa: E501 - CUDA C++

from dataclasses import dataclass

from tensor_cores.tiles import FORMATS


@dataclass(frozen=True)
class Instruction:
    unit: str
    """mma (one warp for 8 or 16 rows) or wgmma (a warpgroup for 64)."""
    rows: int
    depth: int
    a: str
    b: str
    sums: str
    """Of c and d alike."""

    @property
    def name(self) -> str:
        return f"{self.unit}_m{self.rows}n8k{self.depth}_{self.sums}_{self.a}_{self.b}"

    @property
    def formats(self) -> tuple[str, str, str]:
        return self.a, self.b, self.sums


_SMALL = [(a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
INSTRUCTIONS = (
    *[Instruction("mma", 16, k, "f16", "f16", sums) for k in (8, 16) for sums in ("f32", "f16")],
    *[Instruction("mma", 16, k, "bf16", "bf16", "f32") for k in (8, 16)],
    *[Instruction("mma", 16, k, "tf32", "tf32", "f32") for k in (4, 8)],
    *[Instruction("mma", rows, k, "f64", "f64", "f64") for rows, k in ((8, 4), (16, 4), (16, 8), (16, 16))],
    *[Instruction("mma", 16, k, a, b, "f32") for k in (16, 32) for a, b in _SMALL],
    *[Instruction("mma", 16, 32, a, b, "f16") for a, b in (_SMALL[0], _SMALL[3])],
    *[Instruction("wgmma", 64, 16, "f16", "f16", sums) for sums in ("f32", "f16")],
    Instruction("wgmma", 64, 16, "bf16", "bf16", "f32"),
    Instruction("wgmma", 64, 8, "tf32", "tf32", "f32"),
    *[Instruction("wgmma", 64, 32, a, b, sums) for sums in ("f32", "f16") for a, b in _SMALL],
)

_HEAD = """#include <cstdint>
"""
_HOST = """#include <cuda_runtime.h>

extern "C" void* on_device(const void* from, size_t bytes) {
    void* made = nullptr;
    cudaMalloc(&made, bytes);
    cudaMemcpy(made, from, bytes, cudaMemcpyHostToDevice);
    return made;
}
extern "C" void taken_back(void* to, void* made, size_t bytes) {
    if (to != nullptr) cudaMemcpy(to, made, bytes, cudaMemcpyDeviceToHost);
    cudaFree(made);
}
"""

_MMA = """
extern "C" __global__ void {name}(const {word}* a, const {word}* b, const {sum}* c, {sum}* d) {{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    a += blockIdx.x * 64 * {width};
    b += blockIdx.x * 8 * {width};
    c += blockIdx.x * 64 * {sums_wide};
    d += blockIdx.x * 64 * {sums_wide};
    for (int first = warp * {rows}; first < 64; first += 4 * {rows}) {{
        {word} x[{in_a}], y[{in_b}];
        {sum} z[{in_c}];
        for (int i = 0; i < {in_a}; i++)
            x[i] = a[(first + lane / 4 + i % {down} * 8) * {width} + lane % 4 + i / {down} * 4];
        for (int i = 0; i < {in_b}; i++) y[i] = b[lane / 4 * {width} + lane % 4 + i * 4];
        for (int i = 0; i < {in_c}; i++)
            z[i] = c[(first + lane / 4 + i / {beside} * 8) * {sums_wide} + lane % 4 * {beside} + i % {beside}];
        asm volatile("{mnemonic} {places};"
                     : {outputs} : {inputs});
        for (int i = 0; i < {in_c}; i++)
            d[(first + lane / 4 + i / {beside} * 8) * {sums_wide} + lane % 4 * {beside} + i % {beside}] = z[i];
    }}
}}
"""

_WGMMA = """
extern "C" __global__ void {name}(const uint32_t* a, const uint32_t* b, const {sum}* c, {sum}* d) {{
    __shared__ __align__(128) uint32_t columns[64];
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * 16;
    a += blockIdx.x * 64 * 8;
    b += blockIdx.x * 8 * 8;
    c += blockIdx.x * 64 * {sums_wide};
    d += blockIdx.x * 64 * {sums_wide};
    for (int i = threadIdx.x; i < 64; i += 128) columns[i % 8 / 4 * 32 + i / 8 * 4 + i % 4] = b[i];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    const uint64_t place = static_cast<uint64_t>(__cvta_generic_to_shared(columns));
    const uint64_t description = (place >> 4 & 0x3fff) | uint64_t{{8}} << 16 | uint64_t{{16}} << 32;
    uint32_t x[4];
    {sum} z[{in_c}];
    for (int i = 0; i < 4; i++) x[i] = a[(first + lane / 4 + i % 2 * 8) * 8 + lane % 4 + i / 2 * 4];
    for (int i = 0; i < {in_c}; i++)
        z[i] = c[(first + lane / 4 + i / {beside} * 8) * {sums_wide} + lane % 4 * {beside} + i % {beside}];
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{mnemonic} {places};"
                 : {outputs} : {inputs}, "l"(description));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" : {outputs} :: "memory");
    for (int i = 0; i < {in_c}; i++)
        d[(first + lane / 4 + i / {beside} * 8) * {sums_wide} + lane % 4 * {beside} + i % {beside}] = z[i];
}}
"""

_RUN = """
extern "C" int run_{name}(int count, const void* a, const void* b, const void* c, void* d) {{
    {name}<<<count, 128>>>(static_cast<const {word}*>(a), static_cast<const {word}*>(b), static_cast<const {sum}*>(c),
                           static_cast<{sum}*>(d));
    return cudaDeviceSynchronize();
}}
"""


def _list(letter: str, count: int) -> str:
    return ", ".join(letter if letter.startswith("%") else f"{letter}[{i}]" for i in range(count))


def kernel(one: Instruction, *, with_host: bool) -> str:
    """CUDA C++ of the instruction's kernel, with what launches it."""
    double = one.a == "f64"
    per_word = 1 if double else 32 // FORMATS[one.a].bits
    width = one.depth // per_word
    down = 2 if one.rows > 8 else 1
    beside = 1 if one.sums == "f16" else 2
    in_c = beside * down
    in_a, in_b = (4, 0) if one.unit == "wgmma" else (width // 4 * down, width // 4)
    letters = {"f64": "d", "f32": "f", "f16": "r"}[one.sums], "d" if double else "r"
    marks = iter(range(100))

    def group(count: int) -> str:
        return "{" + ",".join(f"%{next(marks)}" for _ in range(count)) + "}"

    targets = group(in_c)
    outputs = ", ".join(f'"+{letters[0]}"(z[{i}])' for i in range(in_c))
    inputs = [f'"{letters[1]}"(x[{i}])' for i in range(in_a)]
    inputs += [f'"{letters[1]}"(y[{i}])' for i in range(in_b)]
    sources = group(in_a)
    if one.unit == "wgmma":
        scales = ", 1, 1, 1, 0" if one.a in ("f16", "bf16") else ", 1, 1, 1"
        places = f"{targets}, {sources}, %{next(marks)}{scales}"
        mnemonic = f"wgmma.mma_async.sync.aligned.m64n8k{one.depth}.{one.sums}.{one.a}.{one.b}"
    else:
        places = f"{targets}, {sources}, {group(in_b)}, {targets}"
        mnemonic = f"mma.sync.aligned.m{one.rows}n8k{one.depth}.row.col.{one.sums}.{one.a}.{one.b}.{one.sums}"
    word = "double" if double else "uint32_t"
    fields = {
        "name": one.name, "word": word, "sum": {"f64": "double", "f32": "float", "f16": "uint32_t"}[one.sums],
        "width": width, "sums_wide": 4 * beside, "rows": one.rows, "in_a": in_a, "in_b": in_b, "in_c": in_c,
        "down": down, "beside": beside, "mnemonic": mnemonic, "places": places, "outputs": outputs,
        "inputs": ", ".join(inputs),
    }  # fmt: skip
    text = (_WGMMA if one.unit == "wgmma" else _MMA).format(**fields)
    return text + _RUN.format(**fields) if with_host else text


def source(chosen: tuple[Instruction, ...], *, with_host: bool) -> str:
    head = _HEAD + (_HOST if with_host else "")
    return head + "".join(kernel(one, with_host=with_host) for one in chosen)
