"""Which calls a kernel takes, and what is done, visibly, about the others.

A call outside a kernel's envelope goes to torch: with one `Fallback` warning for each kernel and reason, a
count that `info()` shows, and an `OutsideEnvelope` instead where AGENT_KERNELS_STRICT is set.
AGENT_KERNELS_DISABLE sends every call to torch without a word. Both are read once.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.autograd import forward_ad

from agent import config
from agent.errors import AgentError
from agent.kernels import building, sources
from agent.kernels.binding import Alike, Library

DTYPES: dict[torch.dtype, int] = {getattr(torch, name): n for n, name in enumerate(sources.DTYPES)}
"""What elements are stored as, with the number that device code knows it by."""
_BY_NUMBER = {number: dtype for dtype, number in DTYPES.items()}
OLDEST = (7, 0)
"""Compute capability from which the device code runs: warps whose lanes advance on their own."""
POINTWISE = ("batch_norm", "gate_product", "gelu")
"""Kernels without sums: torch.compile makes one kernel of them and what stands around, and so has them."""

F = TypeVar("F", bound=Callable[..., Any])


def _asked_while_tracing(function: F) -> F:
    """Has torch.compile call it for real while it traces, and take the answer as a constant."""
    marked: F = torch.compiler.assume_constant_result(function)
    return marked


class Fallback(UserWarning):
    """A call went to torch because the kernel does not take it."""


class OutsideEnvelope(RuntimeError):
    """The same, where AGENT_KERNELS_STRICT forbids it."""


_fallbacks: Counter[tuple[str, str]] = Counter()
_libraries: dict[tuple[str, int, torch.dtype | None], Library | str] = {}
"""For a kernel, a device and, where it has a library for each, a dtype: the library, or why there is none."""
resets: list[Callable[[], None]] = []
"""What `reset` calls beside its own work."""


def takes(
    kernel: str, x: torch.Tensor, *parameters: torch.Tensor | None, dtypes: Collection[torch.dtype] = DTYPES
) -> bool:
    """Whether `kernel` computes this call; if not, that is noted, and torch has to. Builds it on first use.

    Raises OutsideEnvelope where AGENT_KERNELS_STRICT forbids that torch does.
    """
    if is_disabled() or is_compilers(kernel, x):
        return False
    reason = obstacle(kernel, x, parameters, dtypes)
    if reason is not None:
        fall_back(kernel, reason)
    return reason is None


def is_compilers(kernel: str, x: torch.Tensor) -> bool:
    """Whether torch.compile computes this call itself, which the kernel takes elsewhere."""
    return kernel in POINTWISE and x.is_cuda and torch.compiler.is_compiling() and not is_always()


def obstacle(
    kernel: str,
    x: torch.Tensor,
    parameters: Iterable[torch.Tensor | None],
    dtypes: Collection[torch.dtype] = DTYPES,
) -> str | None:
    """Why `kernel`, which takes `x` of these dtypes, cannot take it with these parameters; None: it can."""
    if not x.is_cuda:
        return f"the tensor is on {x.device.type}, and it runs on CUDA"
    if x.dtype not in dtypes:
        *others, last = map(_plain, dtypes)
        taken = f"{', '.join(others)} and {last}" if others else last
        return f"the dtype is {_plain(x.dtype)}, and it takes {taken}"
    device, known = x.device, None
    for other in parameters:
        if other is None:
            continue
        dtype = other.dtype
        if other.device != device or dtype not in (x.dtype, torch.float32):
            return (
                f"a parameter is {_plain(dtype)} on {other.device.type}, and the input is "
                f"{_plain(x.dtype)} on {device.type}"
            )
        if dtype is not (known or dtype):
            return "the parameters are of two dtypes"
        known = dtype
    return missing(kernel, device.index, x.dtype if kernel in sources.APART else None)


@_asked_while_tracing
def missing(kernel: str, device: int, dtype: torch.dtype | None = None) -> str | None:
    """Why there is no library of `kernel` for a CUDA device, which is built where need be; None: there is."""
    found: Library | str | None = _libraries.get((kernel, device, dtype))
    if found is None:
        _libraries[kernel, device, dtype] = found = _load(kernel, device, dtype)
    return str(found) if isinstance(found, str) else None


class Parts:
    """The libraries of a kernel that has one for each dtype: a call goes to that of its own."""

    def __init__(self, kernel: str, device: int) -> None:
        self._kernel, self._device, self._places = kernel, device, sources.APART[kernel]

    def launch(self, function: str, fields: str, *values: float) -> None:
        """As a Library's."""
        self._of(function, values).launch(function, fields, *values)

    def ask(self, function: str, fields: str, *values: float) -> int:
        """As a Library's."""
        return self._of(function, values).ask(function, fields, *values)

    def remembered(self, alike: Alike, function: str, fields: str, *values: float) -> int:
        """As that one's `remembered`."""
        return self._of(function, values).remembered(alike, function, fields, *values)

    def _of(self, function: str, values: tuple[float, ...]) -> Library:
        number = values[self._places[function.partition("_")[0]]]
        return _loaded(self._kernel, self._device, _BY_NUMBER[int(number)])


def library(kernel: str, device: int) -> Library | Parts:
    """The library of `kernel` for CUDA device number `device`, built where need be.

    Raises OutsideEnvelope where there is none: an operator called by its own name has no torch beside it.
    """
    return Parts(kernel, device) if kernel in sources.APART else _loaded(kernel, device, None)


def _loaded(kernel: str, device: int, dtype: torch.dtype | None) -> Library:
    """Raises OutsideEnvelope."""
    found = _libraries.get((kernel, device, dtype))
    if found is None:
        found = missing(kernel, device, dtype) or _libraries[kernel, device, dtype]
    if isinstance(found, str):
        raise OutsideEnvelope(f"{kernel}: {found}")
    return found


def has_libraries() -> bool:
    """Whether a kernel's library was loaded in this process."""
    return any(not isinstance(found, str) for found in _libraries.values())


@_asked_while_tracing
def is_disabled() -> bool:
    """Whether AGENT_KERNELS_DISABLE is set."""
    return _settings().kernels_disable


@_asked_while_tracing
def is_always() -> bool:
    """Whether AGENT_KERNELS_ALWAYS is set."""
    return _settings().kernels_always


@_asked_while_tracing
def fall_back(kernel: str, reason: str) -> None:
    """Notes that torch computes this call. Under torch.compile it runs once, while the call is traced.

    Raises OutsideEnvelope where AGENT_KERNELS_STRICT is set.
    """
    if _settings().kernels_strict:
        raise OutsideEnvelope(
            f"{kernel}: {reason} (AGENT_KERNELS_STRICT is set; without it torch computes this)"
        )
    _fallbacks[kernel, reason] += 1
    if _fallbacks[kernel, reason] == 1:
        warnings.warn(f"{kernel}: {reason}; torch computes this call", Fallback, stacklevel=_level_of_user())


def _level_of_user() -> int:
    """How far above `fall_back` the first frame is that is neither the library's nor torch's."""
    ours = (str(Path(__file__).parent), str(Path(torch.__file__).parent))
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
        level, frame = level + 1, frame.f_back
    return level


def fallbacks(kernel: str) -> dict[str, int]:
    """Reasons for which calls of `kernel` went to torch in this process, and how many did."""
    return {reason: count for (name, reason), count in _fallbacks.items() if name == kernel}


def states(kernel: str) -> dict[int, str]:
    """`ready`, or why not, for the devices that `kernel` was called on in this process."""
    found: dict[int, str] = {}
    for (name, device, _), one in _libraries.items():
        if name == kernel and found.get(device, "ready") == "ready":
            found[device] = one if isinstance(one, str) else "ready"
    return found


def is_eager(tensors: Iterable[torch.Tensor | None]) -> bool:
    """Whether nothing stands between this call and the device: no trace, mode, subclass or transform.

    Such a call needs no dispatcher, which takes longer than a small kernel (ADR 12).
    """
    for probe in _PROBES:
        if probe():
            return False
    for tensor in tensors:  # noqa: SIM110  # a generator takes longer than what it asks
        if type(tensor) not in _PLAIN_TYPES:
            return False
    return True


def refuse_forward_mode(tensors: Iterable[torch.Tensor | None]) -> None:
    """Raises NotImplementedError for a tangent, which the dispatcher would drop without a word."""
    if _has_level() and any(
        tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors
    ):
        raise NotImplementedError(
            "shipped kernels have no forward-mode gradient (jvp); AGENT_KERNELS_DISABLE=1 leaves it to torch"
        )


def _has_level() -> bool:
    return bool(getattr(forward_ad, "_current_level", 0) >= 0)


def widened(x: torch.Tensor) -> torch.Tensor:
    """The tensor as torch's autocast gives it to an operator that it runs in float32."""
    is_half = x.dtype in (torch.float16, torch.bfloat16)
    return x.float() if is_half and torch.is_autocast_enabled("cuda") else x


def all_widened(*tensors: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    """`widened`, of each that is there."""
    if not torch.is_autocast_enabled("cuda"):
        return tensors
    return tuple(None if tensor is None else widened(tensor) for tensor in tensors)


def reset() -> None:
    """Forgets warnings, counts, settings and libraries."""
    _fallbacks.clear()
    _libraries.clear()
    _settings.cache_clear()
    for also in resets:
        also()


@cache
def _settings() -> config.KernelSettings:
    return config.kernel_settings()


def _load(kernel: str, device: int, dtype: torch.dtype | None) -> Library | str:
    capability = torch.cuda.get_device_capability(device)
    if capability < OLDEST:
        return f"the device has compute capability {capability[0]}.{capability[1]}, and it needs 7.0"
    try:
        architecture = building.architecture(capability)
        part = sources.ALL if dtype is None else _plain(dtype)
        return Library(kernel, building.library(kernel, architecture, part, torch.version.cuda))
    except AgentError as fault:
        return str(fault)
    except OSError as error:
        return f"its library cannot be loaded: {error}"


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _probes() -> tuple[Callable[[], object], ...]:
    """Questions whose every answer is empty where nothing intercepts a call.

    They are torch's own and not documented. A torch that lacks one gets an answer that is never empty, so
    that its calls take the dispatcher.
    """
    places = (
        (torch._C, "_len_torch_dispatch_stack"),
        (torch._C, "_len_torch_function_stack"),
        (torch._C, "_get_tracing_state"),
        (getattr(torch._C, "_functorch", None), "peek_interpreter_stack"),
    )
    asked = [getattr(place, name, lambda: True) for place, name in places]
    return (*asked, _has_level)


_PROBES = _probes()
_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter, type(None))
