"""The device unit of an extension for g++: cuda_sources, rewritten, with the candidate's own line numbers."""

import re

from agent.build.build_request import BuildRequest
from agent.build.flags import has_fast_math
from agent.build.source_map import candidate_line, locate, with_directives
from agent.emulator.frontend import kernel_names, rewrite

# The rewriter writes a launch's line out as a number of the text that it was given.
_LAUNCH_LINE = re.compile(
    rf"({re.escape(rewrite.LAUNCH)}(?:(?!kw::Launch).)*?\), )(\d+)(, (?:true|false), )", re.S
)


def cuda_unit(request: BuildRequest, source: str | None = None) -> str:
    """Text of cuda.cu for g++, of cuda_sources or of `source`, which is those with each line in its place.

    Raises rewrite.RewriteError, whose line counts within cuda_sources.
    """
    lines = locate(request.cuda, request.candidate_source)
    named, complete = kernel_names.with_names(request.cuda if source is None else source)
    rewritten = launch_lines(rewrite.device_source(named), lines)
    ending = f"{kernel_names.COMPLETE}\n" if complete else ""
    if has_fast_math(request.extra_cuda_cflags):
        ending += '#include "kw/fast_math.h"\n'
    return with_directives(rewritten, lines, "cuda_sources") + "\n" + ending


def launch_lines(rewritten: str, lines: list[int | None]) -> str:
    """The rewritten text with every launch at the candidate's line, by `source_map.locate`."""
    return _LAUNCH_LINE.sub(
        lambda match: match[1] + str(candidate_line(lines, int(match[2]))) + match[3], rewritten
    )
