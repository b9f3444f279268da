"""Explanation of a candidate's Python exception: the call, its arguments and what was expected.

The input is a claim by the candidate's process (type, message, line, traceback) and the reference's arguments
to constructor and forward. A claim can only refuse a candidate, never accept one, so its words may be trusted
here.
"""

import ast
import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agent.diagnosis.build import headers
from agent.diagnosis.runtime import cuda_errors, pybind_errors
from agent.python_source import syntax_tree
from agent.records import Finding, Location, TensorSpec, Trace

OF_BUILDS = frozenset({"cpp-sources-missing", "load-inline-arguments", "source-files", "extension-not-built"})
"""Kinds of findings for an extension that could not be built, wherever the build was requested."""
OF_CALLS = frozenset({"host-check-failed", "python-error"})
"""Kinds of findings that a candidate's own host code may raise at unsupported sizes."""
_EVIDENCE = 3_000
_MOST_READ = 60_000
"""Maximum characters of a message; the worker sends no more."""
_OWN_FILE = re.compile(r'  File "[^"]*candidate\.py", line')


class Raised(NamedTuple):
    """One exception, and when and where it was raised."""

    type: str
    message: str
    line: int | None
    doing: str
    source: str
    trace: Trace | None

    @property
    def text(self) -> str:
        """Return the text of the raising line in the candidate's file."""
        lines = self.source.splitlines()
        return lines[self.line - 1].strip() if self.line and 0 < self.line <= len(lines) else ""


Meaning = tuple[str, str]
"""Kind and message of the finding for an exception."""


def finding(error: Any, doing: str, source: str, trace: Trace | None = None) -> Finding:
    """Return the finding for an exception; `doing` says when it was raised: `creating ModelNew failed`."""
    claim = error if isinstance(error, Mapping) else {"type": "error", "message": str(error)}
    told = claim.get("line")
    line = told if isinstance(told, int) else None
    raised = Raised(
        str(claim.get("type")), str(claim.get("message", ""))[:_MOST_READ], line, doing, source, trace
    )
    if claim.get("kind") == "state-dict-mismatch":
        kind, message = _state_dict(raised)
    else:
        kind, message = next((meant for read in _READERS if (meant := read(raised))), _unknown(raised))
    location = Location(line=line, text=raised.text or None) if line else None
    return Finding(kind=kind, message=message, location=location, evidence=_tail(claim.get("traceback")))


def beside(errors: list[Finding], raised: Finding) -> list[Finding]:
    """Return the findings of a call: its kernels' errors, and the exception unless they caused it."""
    follows = errors and raised.message.startswith("CUDA error")
    return errors if follows else [*errors, raised]


def _unknown(raised: Raised) -> Meaning:
    first = next(iter(raised.message.splitlines()), "")
    return "python-error", f"{raised.doing}: {raised.type}: {first}"


def _state_dict(raised: Raised) -> Meaning:
    words = " ".join(raised.message.split())
    missing = re.findall(r"Missing key\(s\) in state_dict: ((?:\"[^\"]+\"(?:, )?)+)", words)
    extra = re.findall(r"Unexpected key\(s\) in state_dict: ((?:\"[^\"]+\"(?:, )?)+)", words)
    shapes = re.findall(
        r"size mismatch for ([\w.]+): .*?shape torch.Size\((\[[^\]]*\])\).*?shape in current model is "
        r"torch.Size\((\[[^\]]*\])\)",
        words,
    )
    parts = []
    if extra:
        parts.append(f"the reference has {extra[0].strip()} and ModelNew does not")
    if missing:
        parts.append(f"ModelNew has {missing[0].strip()} and the reference does not")
    parts += [
        f"`{name}` is {given} in the reference and {own} in ModelNew" for name, given, own in shapes[:3]
    ]
    said = "; ".join(parts) if parts else words[:600]
    return (
        "state-dict-mismatch",
        f"The reference's parameters do not fit ModelNew: {said}. Names and shapes have to be the same.",
    )


def _load_inline(raised: Raised) -> Meaning | None:
    if not re.search(r"load_inline\(\) missing .*'cpp_sources'", raised.message):
        return None
    return (
        "cpp-sources-missing",
        "load_inline is called without `cpp_sources`, which it requires: pass a string that declares every "
        "function named in `functions`.",
    )


def _load_inline_arguments(raised: Raised) -> Meaning | None:
    """Report load_inline's own complaint about its arguments."""
    first = next(iter(raised.message.splitlines()), "")
    if not re.match(r"load_inline\(\) (?:missing|got|takes)|Expected 'functions' to be", first):
        return None
    words = "the arguments are those of torch.utils.cpp_extension.load_inline"
    return "load-inline-arguments", f"load_inline cannot be called like this: {first}; {words}."


def _not_built(raised: Raised) -> Meaning | None:
    """Report a build that was refused before anything was compiled."""
    said = re.match(r"Error building extension '([^']*)': (.*)", raised.message)
    if said is None or raised.type != "RuntimeError":
        return None
    if "source files are not allowed" in said[2]:
        return (
            "source-files",
            "`load` compiles source files, and a candidate is one file that opens no other: pass the text of "
            "the sources to load_inline.",
        )
    return "extension-not-built", f"The extension `{said[1][:80]}` is not built: {said[2][:300]}"


def _cpp_sources_none(raised: Raised) -> Meaning | None:
    if "load_inline(" not in raised.text or "NoneType" not in raised.message:
        return None
    return (
        "cpp-sources-missing",
        "load_inline is given None for its sources: `cpp_sources` is a string that declares every function "
        "named in `functions`.",
    )


def _bound_function(raised: Raised) -> Meaning | None:
    words = pybind_errors.mismatch(raised.message)
    return ("wrong-arguments", words) if words else None


def _constructor(raised: Raised) -> Meaning | None:
    if not re.search(r"__init__\(\) (?:takes|missing|got)", raised.message):
        return None
    if raised.type != "TypeError" or "ModelNew" not in raised.doing:
        return None
    values = raised.trace.init_inputs if raised.trace else ()
    given = ", ".join(repr(value) for value in values) or "no arguments"
    count = f"{len(values)} argument{'s' if len(values) != 1 else ''}"
    words = raised.message.splitlines()[0]
    return (
        "constructor-arguments",
        f"The constructor of ModelNew has to take what the reference's takes, {count} ({given}): {words}.",
    )


def _forward(raised: Raised) -> Meaning | None:
    told = re.search(r"ModelNew\.forward\(\) (?:takes|missing)", raised.message)
    if raised.type != "TypeError" or told is None:
        return None
    inputs = raised.trace.inputs if raised.trace else ()
    shown = ", ".join(_input(value) for value in inputs)
    words = raised.message.splitlines()[0]
    return (
        "forward-arguments",
        f"forward of ModelNew has to take the reference's {len(inputs)} inputs ({shown}): {words}.",
    )


def _input(value: Any) -> str:
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, TensorSpec) else repr(value)


def _missing_name(raised: Raised) -> Meaning | None:
    named = re.match(r"name '(\w+)' is not defined", raised.message)
    if named is None or raised.type not in ("NameError", "UnboundLocalError"):
        return None
    statement = headers.import_for(named[1])
    if statement:
        return "missing-import", f"`{named[1]}` is used and never imported: add `{statement}`."
    near = difflib.get_close_matches(named[1], _names(raised.source), 1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    return "undeclared-name", f"`{named[1]}` is used and nothing in the file defines it{hint}."


def _names(source: str) -> list[str]:
    try:
        tree = syntax_tree(source)
    except SyntaxError:
        return []
    return [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _missing_attribute(raised: Raised) -> Meaning | None:
    found = re.match(r"(?:module )?'?([\w.]+)'? (?:object )?has no attribute '(\w+)'", raised.message)
    if found is None or raised.type != "AttributeError":
        return None
    owner, name = found[1], found[2]
    if owner in ("ModelNew", "Tensor", "Parameter", "torch", "NoneType"):
        return "missing-attribute", f"`{owner}` has no attribute `{name}`."
    bound = re.findall(r"functions\s*=\s*\[([^\]]*)\]", raised.source)
    names = re.findall(r"\w+", bound[0]) if bound else []
    near = difflib.get_close_matches(name, names, 1) or names[:1]
    hint = f"; `functions` binds {', '.join(f'`{n}`' for n in names)}" if names else ""
    mend = f": call `{near[0]}`" if near else ""
    return "missing-attribute", f"The extension `{owner}` has no function `{name}`{hint}{mend}."


def _scalar_type(raised: Raised) -> Meaning | None:
    found = re.search(r"expected scalar type (\w+) but found (\w+)", raised.message)
    if found is None:
        return None
    return (
        "data-ptr-type",
        f"`data_ptr` of {found[1]} is asked of a tensor of {found[2]}: its type has to be the tensor's. "
        "Convert the tensor, or read it as what it is.",
    )


def _cuda(raised: Raised) -> Meaning | None:
    error = cuda_errors.of_text(raised.message)
    if error is None:
        return None
    doing = raised.doing.removesuffix(" failed")
    return error.kind, f"CUDA error {error.code} ({error.name}) in {doing}: {error.cause}."


def _own_check(raised: Raised) -> Meaning | None:
    """Report a TORCH_CHECK of the candidate, recognised by its words."""
    first = next(iter(raised.message.splitlines()), "").strip()
    if raised.type not in ("RuntimeError", "ValueError") or len(first) < 8:
        return None
    for number, line in enumerate(raised.source.splitlines(), 1):
        literals = re.findall(r'"((?:\\.|[^"\\])+)"', line)
        if "CHECK" in line and any(len(words) > 5 and words in first for words in literals):
            return "host-check-failed", f"The candidate's own check at line {number} failed: {first[:300]}"
    return None


def _tail(text: Any) -> str | None:
    """Return the traceback from the candidate's own file on."""
    if not text:
        return None
    words = str(text)
    own = _OWN_FILE.search(words)
    return re.sub(r'File "[^"]*/', 'File "', words[own.start() if own else 0 :])[-_EVIDENCE:].strip("\n")


_READERS: tuple[Callable[[Raised], Meaning | None], ...] = (
    _load_inline, _cpp_sources_none, _load_inline_arguments, _not_built, _bound_function, _constructor,
    _forward, _missing_name, _missing_attribute, _scalar_type, _cuda, _own_check,
)  # fmt: skip
