"""Decision whether a kernel supports a call, and the visible fallback to torch otherwise.

A call outside a kernel's envelope goes to torch. The first such call of each kernel and reason emits a
`Fallback` warning, and `info()` shows the counts. With AGENT_KERNELS_STRICT set, `OutsideEnvelope` is raised
instead. AGENT_KERNELS_DISABLE sends every call to torch silently. Both settings are read once.
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
"""Storage dtypes, with the number by which device code knows each."""
_BY_NUMBER = {number: dtype for dtype, number in DTYPES.items()}
OLDEST = (7, 0)
"""Minimum compute capability of the device code, which needs independent thread scheduling."""
POINTWISE = ("batch_norm", "gate_product", "gelu")
"""Elementwise kernels. torch.compile computes these, since it fuses them with their neighbours."""

F = TypeVar("F", bound=Callable[..., Any])


def _asked_while_tracing(function: F) -> F:
    """Make torch.compile call the function while it traces, and treat the result as a constant."""
    marked: F = torch.compiler.assume_constant_result(function)
    return marked


class Fallback(UserWarning):
    """Warning that a call went to torch because the kernel does not support it."""


class OutsideEnvelope(RuntimeError):
    """Error for an unsupported call, with AGENT_KERNELS_STRICT set or without a fallback."""


_fallbacks: Counter[tuple[str, str]] = Counter()
_libraries: dict[tuple[str, int, torch.dtype | None], Library | str] = {}
"""Loaded library, or the reason why there is none, by kernel, device and dtype.

The dtype is None for kernels with one library for all dtypes."""
resets: list[Callable[[], None]] = []
"""Further functions that `reset` calls."""


def takes(
    kernel: str, x: torch.Tensor, *parameters: torch.Tensor | None, dtypes: Collection[torch.dtype] = DTYPES
) -> bool:
    """Return True if `kernel` computes this call; otherwise record the fallback to torch.

    The first use builds the kernel. Raises OutsideEnvelope where AGENT_KERNELS_STRICT forbids a fallback.
    """
    if is_disabled() or is_compilers(kernel, x):
        return False
    reason = obstacle(kernel, x, parameters, dtypes)
    if reason is not None:
        fall_back(kernel, reason)
    return reason is None


def is_compilers(kernel: str, x: torch.Tensor) -> bool:
    """Return True if torch.compile computes this call itself, although the kernel supports it."""
    return kernel in POINTWISE and x.is_cuda and torch.compiler.is_compiling() and not is_always()


def obstacle(
    kernel: str,
    x: torch.Tensor,
    parameters: Iterable[torch.Tensor | None],
    dtypes: Collection[torch.dtype] = DTYPES,
) -> str | None:
    """Return why `kernel` cannot compute `x` with these parameters, or None if it can.

    `dtypes` are the dtypes of `x` that the kernel supports.
    """
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
    """Return why `kernel` has no library for a CUDA device, or None. Builds the library if needed."""
    found: Library | str | None = _libraries.get((kernel, device, dtype))
    if found is None:
        _libraries[kernel, device, dtype] = found = _load(kernel, device, dtype)
    return str(found) if isinstance(found, str) else None


class Parts:
    """Libraries of a kernel that has one for each dtype; each call goes to the library of its dtype."""

    def __init__(self, kernel: str, device: int) -> None:
        self._kernel, self._device, self._places = kernel, device, sources.APART[kernel]

    def launch(self, function: str, fields: str, *values: float) -> None:
        """Call a function that launches, in the library of the call's dtype. See `Library.launch`."""
        self._of(function, values).launch(function, fields, *values)

    def ask(self, function: str, fields: str, *values: float) -> int:
        """Return a function's number from the library of the call's dtype. See `Library.ask`."""
        return self._of(function, values).ask(function, fields, *values)

    def remembered(self, alike: Alike, function: str, fields: str, *values: float) -> int:
        """Return a function's cached number from the call's library. See `Library.remembered`."""
        return self._of(function, values).remembered(alike, function, fields, *values)

    def _of(self, function: str, values: tuple[float, ...]) -> Library:
        number = values[self._places[function.partition("_")[0]]]
        return _loaded(self._kernel, self._device, _BY_NUMBER[int(number)])


def library(kernel: str, device: int) -> Library | Parts:
    """Return the library of `kernel` for CUDA device number `device`, built if needed.

    Raises OutsideEnvelope if there is none: an operator called by its own name has no fallback.
    """
    return Parts(kernel, device) if kernel in sources.APART else _loaded(kernel, device, None)


def _loaded(kernel: str, device: int, dtype: torch.dtype | None) -> Library:
    """Return one library. Raises OutsideEnvelope if there is none."""
    found = _libraries.get((kernel, device, dtype))
    if found is None:
        found = missing(kernel, device, dtype) or _libraries[kernel, device, dtype]
    if isinstance(found, str):
        raise OutsideEnvelope(f"{kernel}: {found}")
    return found


def has_libraries() -> bool:
    """Return True if a kernel's library was loaded in this process."""
    return any(not isinstance(found, str) for found in _libraries.values())


@_asked_while_tracing
def is_disabled() -> bool:
    """Return True if AGENT_KERNELS_DISABLE is set."""
    return _settings().kernels_disable


@_asked_while_tracing
def is_always() -> bool:
    """Return True if AGENT_KERNELS_ALWAYS is set."""
    return _settings().kernels_always


@_asked_while_tracing
def fall_back(kernel: str, reason: str) -> None:
    """Record that torch computes this call. Under torch.compile this happens once, during tracing.

    Raises OutsideEnvelope if AGENT_KERNELS_STRICT is set.
    """
    if _settings().kernels_strict:
        raise OutsideEnvelope(
            f"{kernel}: {reason} (AGENT_KERNELS_STRICT is set; without it torch computes this)"
        )
    _fallbacks[kernel, reason] += 1
    if _fallbacks[kernel, reason] == 1:
        warnings.warn(f"{kernel}: {reason}; torch computes this call", Fallback, stacklevel=_level_of_user())


def _level_of_user() -> int:
    """Return the distance from `fall_back` to the first frame outside this package and torch."""
    ours = (str(Path(__file__).parent), str(Path(torch.__file__).parent))
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
        level, frame = level + 1, frame.f_back
    return level


def fallbacks(kernel: str) -> dict[str, int]:
    """Return the number of calls of `kernel` that went to torch in this process, by reason."""
    return {reason: count for (name, reason), count in _fallbacks.items() if name == kernel}


def states(kernel: str) -> dict[int, str]:
    """Return `ready`, or why there is no library, for each device on which `kernel` was called."""
    found: dict[int, str] = {}
    for (name, device, _), one in _libraries.items():
        if name == kernel and found.get(device, "ready") == "ready":
            found[device] = one if isinstance(one, str) else "ready"
    return found


def is_eager(tensors: Iterable[torch.Tensor | None]) -> bool:
    """Return True if nothing intercepts this call: no trace, mode, tensor subclass or transform.

    Such a call needs no dispatcher, which takes longer than a small kernel (ADR 12).
    """
    for probe in _PROBES:
        if probe():
            return False
    for tensor in tensors:  # noqa: SIM110  # a generator would cost more than the checks
        if type(tensor) not in _PLAIN_TYPES:
            return False
    return True


def refuse_forward_mode(tensors: Iterable[torch.Tensor | None]) -> None:
    """Raise NotImplementedError for a forward-mode tangent, which the dispatcher would drop silently."""
    if _has_level() and any(
        tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors
    ):
        raise NotImplementedError(
            "shipped kernels have no forward-mode gradient (jvp); AGENT_KERNELS_DISABLE=1 leaves it to torch"
        )


def _has_level() -> bool:
    return bool(getattr(forward_ad, "_current_level", 0) >= 0)


def widened(x: torch.Tensor) -> torch.Tensor:
    """Return the tensor as torch's autocast passes tensors to an operator that runs in float32."""
    is_half = x.dtype in (torch.float16, torch.bfloat16)
    return x.float() if is_half and torch.is_autocast_enabled("cuda") else x


def all_widened(*tensors: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    """Apply `widened` to each tensor that is not None."""
    if not torch.is_autocast_enabled("cuda"):
        return tensors
    return tuple(None if tensor is None else widened(tensor) for tensor in tensors)


def reset() -> None:
    """Forget warnings, counts, settings and libraries."""
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
    """Return functions that all return an empty value if nothing intercepts a call.

    They are undocumented functions of torch. If a version of torch lacks one, a substitute returns True, so
    that calls take the dispatcher.
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
