"""Evidence from the GPU that the candidate's own kernels ran and were needed for the result.

Both checks run in the candidate's process, so they may refuse but never verify. The first compares the CUDA
profiler's list of kernels with the names in the source. The second is ablation: a call without the launches
of the candidate's libraries, whose output has to be wrong. The proof that does not depend on the candidate
is the emulator's replay (`replay_check`), which the second look runs.
"""

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

from agent.build.build_request import BuildRequest
from agent.emulator.replay.operators import GEMM_CONV
from agent.harness.integrity.replay_findings import NOT_NEEDED
from agent.harness.messages.commands import to_worker
from agent.harness.task import faults
from agent.harness.worker import worker_commands
from agent.records import Finding, KernelTime, LibraryOps, Profile, Status

Fits = Callable[[dict[str, Any]], bool]
Tell = Callable[[dict[str, Any], str], dict[str, Any]]
_ATTRIBUTE = re.compile(
    r"__(?:launch_bounds|cluster_dims|maxnreg|block_size)__\s*\([^)]*\)|__attribute__\s*\(\(.*?\)\)"
)
_DECLARED = re.compile(r"__global__\b[^;{()]*?\b(\w+)\s*\(")
_PASTED = re.compile(r"^\s*#\s*define\b(?:.*\\\n)*.*(?:__global__|##)", re.MULTILINE)
"""Pattern of macros that define kernels, whose names the source text then does not show."""
_LIBRARIES = re.compile(
    r"(?i)\b(?:at|c10|torch|cub|thrust|cutlass)::|cublas|cudnn|nvjet|^(?:ampere|volta|sm\d+)_|^mem(?:cpy|set)"
)
_MOVES = re.compile(r"(?i)mem(cpy|set)|copy|fill|catarray|arange|transpose|permute")
_PRODUCTS = re.compile(
    r"(?i)gemm|gemv|gemvx|cutlass|cudnn|conv|xmma|nvjet|split_?k|[dw]grad|winograd|nchw|nhwc|dot_kernel"
)
_BESIDE_PRODUCTS = re.compile(
    r"CUDAFunctor_?[aA]dd|im2col|col2im|vol2col|col2vol|flip_filter|\bfft[12]d_|\bDSE::|compute_gemm_pointers"
)
"""Pattern of auxiliary kernels of matrix products and convolutions, whose names mention neither.

They add the bias, convert layouts for older algorithms, or transform and flip filters for cuDNN's FFTs.
"""
SHOWN = 200


def declared(sources: Iterable[str]) -> set[str]:
    """Return the names of the `__global__` functions in a candidate's device code."""
    return {name for text in sources for name in _DECLARED.findall(_ATTRIBUTE.sub("", text))}


def checked(claims: list[dict[str, Any]], requests: Iterable[BuildRequest], setting: LibraryOps) -> Profile:
    """Return the profile of one call.

    Raises Refused if no kernel of the candidate ran, or if one did that `setting` does not allow.
    """
    texts = [request.cuda for request in requests]
    seen = profile(claims, declared(texts), pasted=any(map(_PASTED.search, texts)))
    refused = refusal(seen, setting, beside_products(claims))
    if refused is not None:
        raise faults.Refused(Status.REJECTED, "integrity", [refused])
    return seen


def profile(claims: list[dict[str, Any]], own: set[str], pasted: bool = False) -> Profile:
    """Return the kernels that ran according to the worker's list, which was validated strictly.

    With `pasted`, macros make kernels, so a kernel of no known library counts as the candidate's own.
    """
    totals: dict[str, list[float]] = {}
    streams: set[int] = set()
    for entry in claims:
        totals.setdefault(entry["name"], []).append(entry["us"])
        streams.add(entry["stream"])
    kernels = tuple(
        KernelTime(
            name=name[:SHOWN],
            launches=len(micros),
            ms=sum(micros) / 1000,
            own=_is_own(name, own) or (pasted and not _is_a_librarys(name)),
        )
        for name, micros in sorted(totals.items(), key=lambda item: -sum(item[1]))
    )
    return Profile(kernels=kernels, streams=len(streams))


def check_ablation(tell: Tell, fits: Fits, output_bytes: list[int]) -> None:
    """Raise Refused if the result is right without the candidate's own launches."""
    answer = tell(to_worker(worker_commands.Ablate(output_bytes)), "running forward without its kernels")
    outputs = answer.get("outputs")
    # A forward that fails needed its kernels. If no launch was left out, the check of the profile decides.
    if "error" in answer or not isinstance(outputs, dict) or not answer["left_out"]:
        return
    if fits(outputs):
        message = (
            "With every launch of this file's kernels left out the output is still right: something else "
            "computes it. At least one kernel has to do part of the work."
        )
        raise faults.Refused(Status.REJECTED, "integrity", [Finding(kind=NOT_NEEDED, message=message)])


def beside_products(claims: list[dict[str, Any]]) -> set[str]:
    """Return the names of kernels that ran only as parts of torch's matrix products and convolutions."""
    outside = {entry["name"][:SHOWN] for entry in claims if GEMM_CONV.isdisjoint(entry["operators"])}
    return {entry["name"][:SHOWN] for entry in claims if _BESIDE_PRODUCTS.search(entry["name"])} - outside


def refusal(seen: Profile, setting: LibraryOps, beside: Collection[str] = ()) -> Finding | None:
    """Return the finding against the kernels that ran on the GPU, or None.

    `beside` names kernels that ran as part of torch's matrix products and convolutions.
    """
    if not any(kernel.own for kernel in seen.kernels):
        return faults.NO_LAUNCH
    others = [kernel.name for kernel in seen.kernels if not kernel.own]
    foreign = [name for name in others if not _is_allowed(name, setting, beside)]
    if not foreign:
        return None
    listed = ", ".join(name.split("(")[0][:80] for name in foreign[:3])
    message = (
        f"This file's kernels do not compute the result alone: {listed} ran as well, which --library-ops "
        f"{setting} does not allow."
    )
    return Finding(kind="own-kernels-do-not-compute-the-result", message=message)


def _is_own(name: str, own: set[str]) -> bool:
    """Return True if a demangled name is a function of `own`, in any namespace or template instance."""
    return plain(name) in own


def plain(name: str) -> str:
    """Return a kernel's demangled name without namespaces, template arguments and parameters."""
    whole = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    return re.split(r"[<(]", whole)[0].split("::")[-1]


def _is_a_librarys(name: str) -> bool:
    return bool(_LIBRARIES.search(name.removeprefix("void ")))


def _is_allowed(name: str, setting: LibraryOps, beside: Collection[str]) -> bool:
    if setting == "any" or _MOVES.search(name):
        return True
    return setting == "gemm-conv" and (bool(_PRODUCTS.search(name)) or name in beside)
