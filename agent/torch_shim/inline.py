"""Replacements for `torch.utils.cpp_extension.load_inline` and `load`."""

import inspect
import json
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

import torch.utils.cpp_extension

from . import extension

BuildFunction = Callable[[dict[str, Any]], dict[str, Any]]


def _texts(value: Any) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)


def _functions(value: Any) -> list[str] | dict[str, str] | None:
    if value is None or isinstance(value, dict):
        return value
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise ValueError(f"Expected 'functions' to be a list or dict, but was {type(value)}")
    return value


_build: list[BuildFunction] = []
_made: dict[str, ModuleType] = {}
"""Modules by build request. As in torch, a repeated request gets the library that is already loaded."""

_TAKEN = {
    "name", "cpp_sources", "cuda_sources", "functions", "extra_cflags", "extra_cuda_cflags", "extra_ldflags",
    "extra_include_paths",
}  # fmt: skip
"""Arguments of load_inline that are passed to `build`. Arguments in neither `_TAKEN` nor `_IDLE` may change
the built library."""
_IDLE = {"verbose", "keep_intermediates", "with_cuda", "with_pytorch_error_handling", "use_pch"}


def patch_before(stock: Callable[..., ModuleType], build: BuildFunction) -> None:
    """Replace load_inline by a function that asks `build` first.

    torch's own load_inline (`stock`) runs if `build` answers neither a library nor an error, and if the
    library cannot be loaded.
    """

    signature = inspect.signature(stock)

    def load_inline(*args: Any, **kwargs: Any) -> ModuleType:
        try:
            asked = signature.bind(*args, **kwargs).arguments
        except TypeError:
            # torch's own error message names the function.
            return stock(*args, **kwargs)
        others = asked.keys() - _TAKEN - _IDLE
        if any(asked[key] != signature.parameters[key].default for key in others):
            return stock(*args, **kwargs)
        texts = {key: _texts(asked.get(key)) for key in _TAKEN - {"name", "functions"}}
        functions = _functions(asked.get("functions"))
        request = {**texts, "name": asked["name"], "functions": functions}
        known = _made.get(_key(request))
        if known is not None:
            return known
        answer = build(request)
        library = answer.get("library")
        if library is not None and _loads(library):
            return _remembered(request, extension.module(asked["name"], library))
        if "error" in answer:
            raise RuntimeError(f"Error building extension '{asked['name']}': {answer['error']}")
        return stock(*args, **kwargs)

    load_inline.__module__ = torch.utils.cpp_extension.__name__
    torch.utils.cpp_extension.load_inline = load_inline


def _key(request: dict[str, Any]) -> str:
    return json.dumps(request, sort_keys=True, default=repr)


def _remembered(request: dict[str, Any], made: ModuleType) -> ModuleType:
    _made[_key(request)] = made
    return made


def _loads(library: str) -> bool:
    try:
        extension.opened(library)
    except OSError:
        return False
    return True


def patch(build: BuildFunction) -> None:
    """Replace `load_inline` and `load` of torch.utils.cpp_extension; `build` compiles the extensions."""
    _build[:] = [build]
    for function in (load_inline, load):
        function.__module__ = torch.utils.cpp_extension.__name__
        setattr(torch.utils.cpp_extension, function.__name__, function)


# The signature is torch's own, so that invalid calls raise the same TypeError.
def load_inline(  # noqa: PLR0913
    name: str,
    cpp_sources: Any,
    cuda_sources: Any = None,
    sycl_sources: Any = None,
    functions: Any = None,
    extra_cflags: Any = None,
    extra_cuda_cflags: Any = None,
    extra_sycl_cflags: Any = None,
    extra_ldflags: Any = None,
    extra_include_paths: Any = None,
    build_directory: Any = None,
    verbose: bool = False,
    with_cuda: Any = None,
    with_sycl: Any = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
) -> ModuleType | str:
    if sycl_sources:
        raise RuntimeError(f"Error building extension '{name}': only C++ and CUDA are built here")
    if not is_python_module and functions is None:
        # Operators register themselves when the library is loaded, so the module has no functions.
        functions = []
    request = {
        "name": name,
        "cpp_sources": _texts(cpp_sources),
        "cuda_sources": _texts(cuda_sources),
        "functions": _functions(functions),
        "extra_cflags": _texts(extra_cflags),
        "extra_cuda_cflags": _texts(extra_cuda_cflags),
        "extra_ldflags": _texts(extra_ldflags),
        "extra_include_paths": _texts(extra_include_paths),
        "implicit_headers": not no_implicit_headers,
    }
    known = _made.get(_key(request))
    if known is not None:
        return known
    answer = _build[0](request)
    if answer.get("library") is None:
        raise RuntimeError(f"Error building extension '{name}': {answer.get('error', 'no reason was given')}")
    made = _remembered(request, extension.module(name, answer["library"]))
    return made if is_python_module else str(answer["library"])


def load(name: str, sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(
        f"Error building extension '{name}': source files are not allowed here; pass the source "
        "text to torch.utils.cpp_extension.load_inline"
    )
