"""Where wgmma finds the elements that a descriptor of a matrix in shared memory speaks of.

Every element of shared memory says where it lies, and the other factor is the unit matrix, so the product is
a picture of the addresses. `PYTHONPATH=tests python -m tensor_cores.descriptors FILE` writes those of many
descriptors, on a machine with a GPU.
"""
# ruff: noqa: E501 - CUDA C++

import argparse
import ctypes
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tensor_cores.tiles import Array

PATTERN = 192 * 1024
"""Bytes of shared memory that say where they lie."""


@dataclass(frozen=True)
class Probe:
    """The matrix that is looked at (a or b), of which elements, and whether its rows are those of k."""

    matrix: str
    element: str
    flipped: bool

    @property
    def name(self) -> str:
        return f"{self.matrix}_{self.element}_{'flipped' if self.flipped else 'plain'}"

    @property
    def bytes(self) -> int:
        return {"f16": 2, "tf32": 4, "s8": 1}[self.element]

    @property
    def depth(self) -> int:
        return 32 // self.bytes

    @property
    def columns(self) -> int:
        return 128 if self.matrix == "b" else self.depth

    @property
    def shape(self) -> tuple[int, int]:
        """Of the picture: rows or columns of the matrix, and k."""
        return 128 if self.matrix == "b" else 64, self.depth


PROBES = tuple(
    Probe(matrix, element, flipped)
    for matrix in "ab"
    for element, ways in (("f16", (False, True)), ("tf32", (False,)), ("s8", (False,)))
    for flipped in ways
)

_KERNEL = """
extern "C" __global__ void {name}(uint64_t description, int start, int* found) {{
    extern __shared__ __align__(1024) unsigned char shared[];
    {type}* pattern = reinterpret_cast<{type}*>(shared);
    {type}* unit = reinterpret_cast<{type}*>(shared + {pattern});
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sums[{sums}] = {{}};
    for (int i = threadIdx.x; i < {depth} * {depth}; i += 128) {{
        const int k = i % {depth}, n = i / {depth};
        unit[k / {unit} * {depth} * {unit} + n * {unit} + k % {unit}] = {type}(k == n);
    }}
    uint32_t x[4];
    for (int i = 0; i < 4; i++) {{
        const int row = warp * 16 + lane / 4 + i % 2 * 8, word = lane % 4 + i / 2 * 4;
        const int within = row - word * {each};
        x[i] = within >= 0 && within < {each} ? {one} << within * {bits} : 0;
    }}
    for (int pass = 0; pass < 3; pass++) {{
        __syncthreads();
        for (int i = threadIdx.x; i < {elements}; i += 128) pattern[i] = {type}(i >> 7 * pass & 127);
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        const uint64_t at = static_cast<uint64_t>(__cvta_generic_to_shared(shared));
        const uint64_t looked = description | ((at + start) >> 4 & 0x3fff);
        const uint64_t other = ((at + {pattern}) >> 4 & 0x3fff) | uint64_t{{{depth}}} << 16 | uint64_t{{8}} << 32;
        {sum} z[{sums}];
        for (int i = 0; i < {sums}; i++) z[i] = 0;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("{mnemonic} {places};" : {outputs} : {inputs});
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" : {outputs} :: "memory");
        for (int i = 0; i < {sums}; i++) sums[i] += static_cast<int>(z[i]) << 7 * pass;
        (void)other;
        (void)x[0];
    }}
    for (int i = 0; i < {sums}; i++) {{
        const int row = warp * 16 + lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        {stored}
    }}
}}
"""

_RUN = """
extern "C" int run_{name}(int count, const uint64_t* descriptions, const int* starts, int* found) {{
    int* there;
    cudaMalloc(&there, {size} * sizeof(int));
    cudaFuncSetAttribute({name}, cudaFuncAttributeMaxDynamicSharedMemorySize, {pattern} + 4096);
    for (int i = 0; i < count; i++) {{
        {name}<<<1, 128, {pattern} + 4096>>>(descriptions[i], starts[i], there);
        cudaMemcpy(found + i * {size}, there, {size} * sizeof(int), cudaMemcpyDeviceToHost);
    }}
    cudaFree(there);
    return cudaDeviceSynchronize();
}}
"""


def kernel(probe: Probe, *, with_host: bool) -> str:
    floating = probe.element != "s8"
    count = probe.columns // 2
    marks = iter(range(200))

    def group(many: int) -> str:
        return "{" + ",".join(f"%{next(marks)}" for _ in range(many)) + "}"

    targets = group(count)
    letter = "f" if floating else "r"
    inputs = '"l"(looked), "l"(other)' if probe.matrix == "a" else ", ".join(f'"r"(x[{i}])' for i in range(4))
    left = f"%{next(marks)}" if probe.matrix == "a" else group(4)
    right = f"%{next(marks)}"
    if probe.matrix == "b":
        inputs += ', "l"(looked)'
    turned = ""
    if probe.element == "f16":
        turned = f", {int(probe.flipped)}, 0" if probe.matrix == "a" else f", {int(probe.flipped)}"
    scales = ", 1, 1, 1" if floating else ", 1"
    kinds = "s32.s8.s8" if not floating else f"f32.{probe.element}.{probe.element}"
    high, wide = probe.shape
    stored = (
        f"if (row < {probe.depth}) found[column * {wide} + row] = sums[i];"
        if probe.matrix == "b"
        else f"found[row * {wide} + column] = sums[i];"
    )
    template = _KERNEL + (_RUN if with_host else "")
    return template.format(
        name=probe.name, type={"f16": "half", "tf32": "float", "s8": "int8_t"}[probe.element],
        sum="float" if floating else "int", pattern=PATTERN, sums=count, depth=probe.depth,
        unit=16 // probe.bytes, each=4 // probe.bytes if probe.bytes < 4 else 1, bits=8 * probe.bytes % 32,
        one={"f16": "0x3c00u", "tf32": "0x3f800000u", "s8": "1u"}[probe.element],
        elements=PATTERN // probe.bytes, stored=stored, size=high * wide,
        mnemonic=f"wgmma.mma_async.sync.aligned.m64n{probe.columns}k{probe.depth}.{kinds}",
        places=f"{targets}, {left}, {right}{scales}{turned}",
        outputs=", ".join(f'"+{letter}"(z[{i}])' for i in range(count)), inputs=inputs,
    )  # fmt: skip


def source(*, with_host: bool) -> str:
    head = "#include <cstdint>\n#include <cuda_fp16.h>\n#include <cuda_runtime.h>\n"
    return head + "".join(kernel(probe, with_host=with_host) for probe in PROBES)


def questions() -> list[tuple[int, int, int, int, int]]:
    """Swizzle, leading and stride offset, base offset, start: one thing at a time, and some at once."""
    asked = []
    for swizzle in range(4):
        for leading, stride in (
            (128, 256),
            (256, 128),
            (16, 1024),
            (1024, 512),
            (4096, 1024),
            (2048, 8192),
            (512, 4096),
        ):
            asked.append((swizzle, leading, stride, 0, 0))
        for start in (16, 32, 48, 64, 96, 112, 128, 256, 384, 512, 896, 1024, 1040, 1184):
            asked.append((swizzle, 4096, 1024, 0, start))
        for offset in range(1, 8):
            asked.append((swizzle, 4096, 1024, offset, 128 * offset))
            asked.append((swizzle, 4096, 1024, offset, 0))
        asked += [
            (swizzle, 4096, 1152, 0, 0),
            (swizzle, 4096 + 128, 1024, 0, 0),
            (swizzle, 4096 + 16, 1024 + 16, 0, 0),
        ]
    return asked


def description(swizzle: int, leading: int, stride: int, offset: int) -> int:
    return (leading >> 4) << 16 | (stride >> 4) << 32 | offset << 49 | swizzle << 62


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    asked = questions()
    words = np.array([description(*one[:4]) for one in asked], "uint64")
    starts = np.array([one[4] for one in asked], "int32")
    kept: dict[str, Array] = {"asked": np.array(asked)}
    with tempfile.TemporaryDirectory() as folder:
        text, library = Path(folder) / "probes.cu", Path(folder) / "probes.so"
        text.write_text(source(with_host=True))
        flags = ["-gencode=arch=compute_90a,code=sm_90a", "-shared", "-Xcompiler", "-fPIC", "-O2"]
        subprocess.run(["nvcc", *flags, "-o", str(library), str(text)], check=True)
        loaded = ctypes.CDLL(str(library))
        for probe in PROBES:
            found = np.zeros((len(asked), *probe.shape), "int32")
            given = (ctypes.c_void_p(array.ctypes.data) for array in (words, starts, found))
            error = getattr(loaded, f"run_{probe.name}")(len(asked), *given)
            print(probe.name, "error" if error else "done", error, flush=True)
            kept[probe.name] = found
            np.savez_compressed(options.file, **kept)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
