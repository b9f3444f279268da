"""Find CUDA's headers, in NVIDIA's wheels or in a toolkit, and read their version."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from agent.errors import EnvironmentFault

_TOOLKIT = Path("/usr/local/cuda")


def directory(cuda_home: Path | None) -> Path:
    """Return the directory of cuda_runtime.h: from NVIDIA's wheels, else from a toolkit."""
    places = [
        *_of_wheels(),
        *([cuda_home / "include"] if cuda_home else []),
        _TOOLKIT / "include",
    ]
    for place in places:
        if (place / "cuda_runtime.h").is_file() and (place / "crt" / "host_config.h").is_file():
            return place
    raise EnvironmentFault(
        "no CUDA headers: the emulator needs cuda_runtime.h "
        "(pip install 'nvidia-cuda-runtime>=13,<14' 'nvidia-cuda-crt>=13,<14')"
    )


def _of_wheels() -> Iterator[Path]:
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(Path(root).glob("cu[0-9]*/include"), reverse=True)


def version(include: Path) -> str:
    text = (include / "cuda_runtime_api.h").read_text(errors="replace")
    found = re.search(r"#define\s+CUDART_VERSION\s+(\d+)", text)
    if found is None:
        raise EnvironmentFault(f"{include / 'cuda_runtime_api.h'} states no CUDART_VERSION")
    return f"{int(found[1]) // 1000}.{int(found[1]) % 1000 // 10}"
