"""Reasons to leave a request to stock `load_inline`."""

import re

from agent.build import refusals
from agent.build.build_request import BuildRequest

# Names that compile against the slim headers but behave differently, or that need another CUDA library.
_WORDS = re.compile(
    r"\bfrom_blob\b|\b(?:set|get)(?:Current|Default)?CUDABlasHandle\b|\bgetStreamFromPool\b"
    r"|\bTORCH_LIBRARY\w*|\btorch::(?:nn|jit|autograd)\b|\bcu(?:blas|dnn|sparse|fft|solver)\w+\b"
    r"|\bcurandCreateGenerator\b|\bnvrtc\w+\b|\bcu(?:Module|Launch|Tensor|Func|Ctx)[A-Z]\w+\b"
)


class Doubt(Exception):
    """Exception raised if a slim build might differ from stock `load_inline`; the text says why."""


def of_sources(request: BuildRequest) -> None:
    """Raise Doubt for sources that would behave differently at run time, or need other files or libraries."""
    refused = refusals.of_request(request.model_copy(update={"extra_cflags": (), "extra_cuda_cflags": ()}))
    if refused:
        raise Doubt(refused[0].message)
    for text in (request.cpp, request.cuda):
        found = _WORDS.search(text)
        if found:
            raise Doubt(f"the sources use {found[0]}")
