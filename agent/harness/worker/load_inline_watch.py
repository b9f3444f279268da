"""Stock `load_inline` in the candidate's process, with a report to the judge before and after each build.

Standalone: the worker runs a copy. A request that the judge refuses is not built. The time between both
reports does not count as time of a call.
"""

import inspect
import time
from collections.abc import Callable
from typing import Any

from torch.utils import cpp_extension

_KEPT_LOG = 200_000


def record(tell: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Wrap `load_inline` so that it reports by `tell`, and disable `load`, which builds source files."""
    stock = cpp_extension.load_inline
    signature = inspect.signature(stock)

    def load_inline(*args: Any, **kwargs: Any) -> Any:
        try:
            asked = signature.bind(*args, **kwargs).arguments
        except TypeError:
            # Let torch raise its own message, which names the function.
            return stock(*args, **kwargs)  # type: ignore[no-untyped-call]
        request = {key: value for key, value in asked.items() if isinstance(value, (str, list, dict, tuple))}
        refused = tell(request | {"begins": True}).get("error")
        if refused is not None:
            raise RuntimeError(f"Error building extension '{asked['name']}': {refused}")
        started = time.monotonic()
        log = None
        try:
            return stock(*args, **kwargs)  # type: ignore[no-untyped-call]
        except Exception as error:
            log = str(error)[-_KEPT_LOG:]
            raise
        finally:
            tell(request | {"seconds": time.monotonic() - started, "log": log})

    def load(name: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"Error building extension '{name}': source files are not allowed here")

    load_inline.__signature__ = signature  # type: ignore[attr-defined]
    cpp_extension.load_inline, cpp_extension.load = load_inline, load
