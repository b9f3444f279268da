"""Device unit of an extension for g++: the rewritten cuda_sources with the candidate's line numbers."""

import re

from agent.build.build_request import BuildRequest
from agent.build.flags import has_fast_math
from agent.build.source_map import candidate_line, locate, with_directives
from agent.emulator.frontend import kernel_names, rewrite

# Launch written by the rewriter; group 2 is its line number in the rewriter's input.
_LAUNCH_LINE = re.compile(
    rf"({re.escape(rewrite.LAUNCH)}(?:(?!kw::Launch).)*?\), )(\d+)(, (?:true|false), )", re.S
)


def cuda_unit(request: BuildRequest, source: str | None = None) -> str:
    """Return the text of cuda.cu for g++, from cuda_sources or an edited `source` with the same lines.

    Raise rewrite.RewriteError for text that cannot be rewritten, with the line number in cuda_sources.
    """
    lines = locate(request.cuda, request.candidate_source)
    named, complete = kernel_names.with_names(request.cuda if source is None else source)
    rewritten = launch_lines(rewrite.device_source(named), lines)
    ending = f"{kernel_names.COMPLETE}\n" if complete else ""
    if has_fast_math(request.extra_cuda_cflags):
        ending += '#include "kw/fast_math.h"\n'
    return with_directives(rewritten, lines, "cuda_sources") + "\n" + ending


def launch_lines(rewritten: str, lines: list[int | None]) -> str:
    """Replace the line number of every launch by the candidate's; `lines` comes from `source_map.locate`."""
    return _LAUNCH_LINE.sub(
        lambda match: match[1] + str(candidate_line(lines, int(match[2]))) + match[3], rewritten
    )
