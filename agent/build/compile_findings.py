"""Turn messages of g++ and ld into findings that name the cause and the line of the candidate's file."""

import difflib
import re

from agent.build import header_gap
from agent.build.build_request import BINDINGS, BuildRequest, binding_line, definitions
from agent.build.compiler import Message
from agent.build.source_map import CANDIDATE
from agent.build.toolchain import Toolchain
from agent.records import Finding, Location
from agent.torch_shim.c_abi import UNLOCATED_LINE

_NOT_DECLARED = re.compile(r"'(\w+)' was not declared in this scope")
_UNDEFINED = re.compile(r"undefined (?:reference to `|symbol: )(.+?)'?$", re.M)
_MULTIPLE = re.compile(r"multiple definition of `(.+?)'", re.M)
_MOST = 5


def of_messages(
    messages: list[Message], request: BuildRequest, toolchain: Toolchain | None = None
) -> tuple[Finding, ...]:
    """Return a finding for each of the first errors, of kind `header-gap` if the slim headers lack a name.

    If `toolchain` is None, the messages come from a build with torch's own headers, which have no gaps.
    """
    found: list[Finding] = []
    for message in messages:
        if message.severity != "error" or len(found) == _MOST:
            continue
        finding = _of_error(message, request, toolchain)
        if not any((finding.kind, finding.message) == (other.kind, other.message) for other in found):
            found.append(finding)
    return tuple(found)


def of_link(text: str, request: BuildRequest, toolchain: Toolchain | None = None) -> tuple[Finding, ...]:
    """Return findings for undefined and duplicate symbols in ld's output; see `of_messages`."""
    names = list(dict.fromkeys(_UNDEFINED.findall(text)))
    found = [_undefined(name, request, toolchain) for name in names[:_MOST]]
    for name in list(dict.fromkeys(_MULTIPLE.findall(text)))[:_MOST]:
        found.append(
            Finding(
                kind="multiple-definition",
                message=f"`{name}` is defined in both cpp_sources and cuda_sources: define it once and only "
                "declare it in cpp_sources.",
                location=_mention(request, name.split("(")[0].split("::")[-1]),
                evidence=f"multiple definition of {name}",
            )
        )
    if not found:
        found.append(Finding(kind="compile-error", message="Linking failed.", evidence=clean(text)[:2000]))
    return tuple(found)


def warnings(messages: list[Message]) -> tuple[str, ...]:
    """Return the warnings in the candidate's own lines, one line of text each."""
    said = [
        f"line {message.line}: {message.text}"
        for message in messages
        if message.severity == "warning" and message.file == CANDIDATE
    ]
    return tuple(dict.fromkeys(said))


def at_line(request: BuildRequest, line: int | None) -> Location | None:
    """Return the location of a line in the candidate's file, or None if the line does not exist."""
    rows = request.candidate_source.split("\n")
    if line is None or not 0 < line <= len(rows):
        return None
    return Location(line=line, text=rows[line - 1].strip())


def clean(text: str) -> str:
    """Return `text` without directory names of this machine."""
    text = re.sub(r"(?<![\w<\"])/(?:[\w.+-]+/)+", "", text)
    return re.sub(r"\b(cpp_sources|cuda_sources):(1\d{6})\b", _relative, text)


def _relative(match: re.Match[str]) -> str:
    return f"{match[1]}:{int(match[2]) - UNLOCATED_LINE}"


def _of_error(message: Message, request: BuildRequest, toolchain: Toolchain | None) -> Finding:
    undeclared = _NOT_DECLARED.search(message.text)
    if message.file == BINDINGS and undeclared:
        return _missing_declaration(undeclared[1], request)
    location = _location(message, request)
    evidence = _evidence(message)
    if "with 'C' linkage" in message.text:
        return _extern_c(location, evidence)
    gap = toolchain and header_gap.explain(message.text, toolchain.cuda_include)
    gap = gap or (_unknown_signature(message, request, toolchain) if toolchain else None)
    if gap:
        return Finding(
            kind="header-gap",
            message=f"The emulator's torch and CUDA headers lack {gap}; a GPU build may accept this code.",
            location=location,
            evidence=evidence,
        )
    text = clean(message.text)
    bound = _bound(message, request)
    if bound:
        text = f"binding `{bound}` from `functions`: {text}"
    return Finding(
        kind="compile-error",
        message=text,
        location=location,
        evidence=evidence,
    )


def _unknown_signature(message: Message, request: BuildRequest, toolchain: Toolchain) -> str | None:
    """Return a description of a call that no slim overload accepts but torch's may, or None."""
    if "<unresolved overloaded function type>" in message.text:
        return None
    own = str(toolchain.headers)
    called = re.search(r"no matching function for call to '(.+)'", message.text)
    candidates = [file for file, text in message.notes if "candidate" in text]
    if called and candidates and all(file.startswith(own) for file in candidates):
        return f"a signature for `{called[1]}`"
    if not (message.file.startswith(own) and "kw::" in message.text):
        return None
    bound = _bound(message, request)
    return f"a conversion for the types of `{bound}`" if bound else "what this line asks of torch"


def _bound(message: Message, request: BuildRequest) -> str | None:
    """Return the function whose generated binding a compiler message is about, or None."""
    places = [(message.file, message.line), *message.context]
    names = list(request.functions or {})
    lines = [line for file, line in places if file == BINDINGS and line <= len(names)]
    return names[lines[0] - 1] if lines else None


def _missing_declaration(function: str, request: BuildRequest) -> Finding:
    defined = definitions(request.cuda, function)
    line = binding_line(request, function)
    said = f"`{function}` is listed in `functions`, but cpp_sources does not declare it"
    if not defined:
        near = difflib.get_close_matches(function, _defined_names(request), 1)
        hint = f" (did you mean `{near[0]}`?)" if near else ""
        mend = f", and no source defines it{hint}: define it and declare it in cpp_sources."
    elif "__global__" in defined[0]:
        mend = (
            ": it is a `__global__` kernel, which Python cannot call. Write a C++ function that launches it, "
            "declare that in cpp_sources and list it instead."
        )
    else:
        head = defined[0].replace('extern "C" ', "")
        mend = f": add `{head};` to cpp_sources."
    return Finding(
        kind="missing-declaration",
        message=said + mend,
        location=at_line(request, line) or _mention(request, function),
        evidence=f"'{function}' was not declared in this scope",
    )


def _undefined(symbol: str, request: BuildRequest, toolchain: Toolchain | None) -> Finding:
    evidence = f"undefined symbol: {symbol}"
    if toolchain and header_gap.is_function_of_cuda(symbol, toolchain.cuda_include):
        return Finding(
            kind="header-gap",
            message=f"The emulator's CUDA runtime lacks {symbol}; a GPU build may accept this code.",
            location=_mention(request, symbol),
            evidence=evidence,
        )
    if symbol.startswith("kw_module_init"):
        return Finding(
            kind="no-module",
            message="The sources define no Python module: pass `functions`, or write a PYBIND11_MODULE.",
            evidence="the extension has no module init function",
        )
    pointer = re.match(r"(.+?)\*? at::Tensor::(?:mutable_|const_)?data_ptr<(.+?)>", symbol)
    if pointer:
        return _wrong_data_ptr(pointer[2], evidence, request)
    function = symbol.split("(")[0].split("::")[-1].split(" ")[-1]
    defined = definitions(request.cuda, function) + definitions(request.cpp, function)
    if re.search(
        rf'extern\s*"C"[^;{{]*(?:\{{[^}}]*)?\b{re.escape(function)}\s*\(', request.cuda + request.cpp
    ):
        return _extern_c(_mention(request, function), evidence)
    if defined:
        mend = f"; it is defined as `{defined[0]}`, which is another function: make the two alike."
    else:
        near = difflib.get_close_matches(function, _defined_names(request), 1)
        mend = f"; the nearest definition is `{near[0]}`." if near else "."
    return Finding(
        kind="undefined-function",
        message=f"`{symbol}` is declared and used, but no source defines it{mend}",
        location=_mention(request, function),
        evidence=evidence,
    )


def _wrong_data_ptr(wanted: str, evidence: str, request: BuildRequest) -> Finding:
    scalar = {"__half": "at::Half", "__nv_bfloat16": "at::BFloat16"}.get(wanted)
    mend = f": use `reinterpret_cast<{wanted}*>(x.data_ptr<{scalar}>())`." if scalar else "."
    return Finding(
        kind="undefined-function",
        message=f"torch has no `data_ptr<{wanted}>()`{mend}",
        location=_mention(request, f"data_ptr<{wanted}") or _mention(request, "data_ptr"),
        evidence=evidence,
    )


def _extern_c(location: Location | None, evidence: str) -> Finding:
    return Finding(
        kind="extern-c",
        message='The function has C linkage in one place and C++ linkage in another: remove `extern "C"`, '
        "which load_inline does not need.",
        location=location,
        evidence=evidence,
    )


def _defined_names(request: BuildRequest) -> list[str]:
    return re.findall(r"\b(\w+)\s*\([^;{}()]*\)\s*\{", request.cuda + "\n" + request.cpp)


def _mention(request: BuildRequest, words: str) -> Location | None:
    """Return the first line of the candidate's file with `words`, preferably with a `(` after them."""
    pattern = re.compile(rf"(?<!\w){re.escape(words)}(?!\w)")
    rows = request.candidate_source.split("\n")
    lines = [number for number, row in enumerate(rows, 1) if pattern.search(row)]
    called = [number for number in lines if re.search(rf"{re.escape(words)}\s*\(", rows[number - 1])]
    chosen = called or lines
    return at_line(request, chosen[0]) if chosen else None


def _location(message: Message, request: BuildRequest) -> Location | None:
    if message.file == CANDIDATE:
        return at_line(request, message.line)
    asked = [line for file, line in message.context if file == CANDIDATE]
    if asked:
        return at_line(request, asked[-1])
    bound = _bound(message, request)
    return at_line(request, binding_line(request, bound)) if bound else None


def _evidence(message: Message) -> str:
    place = f"line {message.line}: " if message.file == CANDIDATE else ""
    notes = [f"note: {text}" for file, text in message.notes if file == CANDIDATE]
    chain = [f"asked for at line {line}" for file, line in message.context if file == CANDIDATE]
    return clean("\n".join([f"{place}error: {message.text}", *chain, *notes[:4]]))[:2000]
