"""What a GPU's tensor cores make of the tiles, on a machine that has one.

`PYTHONPATH=tests python -m tensor_cores.measure FILE` writes a checksum of every tile, and some tiles whole.
"""

import argparse
import ctypes
import hashlib
import subprocess
import tempfile
from pathlib import Path
from zlib import crc32

import numpy as np
from tensor_cores.instructions import INSTRUCTIONS, Instruction, source
from tensor_cores.tiles import FORMATS, KINDS, Array, tiles


def built(folder: Path) -> ctypes.CDLL:
    text, library = folder / "products.cu", folder / "products.so"
    text.write_text(source(INSTRUCTIONS, with_host=True))
    subprocess.run(
        ["nvcc", "-gencode=arch=compute_90a,code=sm_90a", "-shared", "-Xcompiler", "-fPIC", "-O1",
         "-split-compile", "0", "-o", str(library), str(text)],
        check=True,
    )  # fmt: skip
    return ctypes.CDLL(str(library))


def on_gpu(library: ctypes.CDLL, one: Instruction, given: tuple[Array, Array, Array]) -> Array:
    made: Array = np.zeros(given[2].shape, FORMATS[one.sums].word)
    library.on_device.restype = ctypes.c_void_p
    arrays = (*given, made)
    places = [
        ctypes.c_void_p(library.on_device(ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)))
        for array in arrays
    ]
    error = getattr(library, f"run_{one.name}")(len(made), *places)
    if error:
        raise RuntimeError(f"{one.name}: CUDA error {error}")
    for array, place in zip(arrays, places, strict=True):
        to = ctypes.c_void_p(made.ctypes.data if array is made else None)
        library.taken_back(to, place, ctypes.c_size_t(array.nbytes))
    return made


def checksums(tiles_: Array) -> Array:
    return np.array([crc32(tile.tobytes()) for tile in tiles_], "uint32")


def of_all(sums: Array) -> int:
    """One checksum of those of several tiles."""
    return crc32(sums.tobytes())


def checksum(given: tuple[Array, Array, Array]) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for array in given)).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--each", type=int, default=150, help="tiles of every kind")
    parser.add_argument("--whole", type=int, default=5, help="of them kept whole beside their checksums")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    kept: dict[str, Array] = {"seed_each": np.array([options.seed, options.each])}
    with tempfile.TemporaryDirectory() as folder:
        library = built(Path(folder))
        for one in INSTRUCTIONS:
            given = tiles(one.formats, one.depth, options.each, options.seed)
            made = on_gpu(library, one, given)
            kept[one.name] = made[: options.whole * len(KINDS)]
            sums = checksums(made)
            kept[f"{one.name}.tiles"] = sums
            kinds = [of_all(sums[number :: len(KINDS)]) for number in range(len(KINDS))]
            kept[f"{one.name}.kinds"] = np.array(kinds, "uint32")
            kept[f"{one.name}.inputs"] = np.array(checksum(given))
            print(one.name, len(made), "tiles", flush=True)
            np.savez_compressed(options.file, **kept)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
