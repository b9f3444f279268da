"""Mends of declarations, definitions and bindings: `cpp_sources`, `functions`, misplaced device code."""

import ast
import re

from agent.diagnosis.build import cpp_functions
from agent.diagnosis.build.cpp_functions import Function
from agent.mend.extension import Extension, closing_brace
from agent.records import Finding

_MODULE = re.compile(r"PYBIND11_MODULE\s*\([^)]*\)\s*\{")
_BOUND = re.compile(r'm\.def\(\s*\\?"(\w+)\\?"')
_SAID = re.compile(r"`(?P<name>\w+)` is listed .*: add `(?P<declaration>[^`]+;)` to cpp_sources")
_SIGNATURE = re.compile(r"(\w+)\s*\(")


def declare(extension: Extension, finding: Finding) -> Extension | None:
    """Declare in cpp_sources every bound function that only cuda_sources defines."""
    if extension.texts("cuda_sources") is None:
        return _declare_as_said(extension, finding)
    names = _bound_names(extension)
    defined = {
        f.name: f for f in cpp_functions.functions(extension.code("cuda_sources")) if f.body and f.on_host
    }
    declared = {f.name for f in cpp_functions.functions(extension.code("cpp_sources"))}
    missing = [defined[name] for name in names if name in defined and name not in declared]
    if not missing or any(name not in defined and name not in declared for name in names):
        return None
    did = f"declared {', '.join(f.name for f in missing)} in cpp_sources"
    made = _with_declarations(extension, "\n".join(map(_declaration, missing)), did)
    if made is not None and extension.functions() is None:
        made = made.with_argument("functions", _listed(names), f"bound {', '.join(names)}")
    return made


def _declare_as_said(extension: Extension, finding: Finding) -> Extension | None:
    """Add the declaration that the finding quotes, for sources made at run time.

    The build has read their definition, and its finding holds the declaration.
    """
    said = _SAID.search(finding.message)
    if said is None:
        return None
    return _with_declarations(extension, said["declaration"], f"declared {said['name']} in cpp_sources")


def _bound_names(extension: Extension) -> list[str]:
    """Return the names in `functions`, or without that argument the host functions that Python calls."""
    names = extension.functions()
    if names is not None:
        return names
    if extension.argument("functions") is not None or "PYBIND11_MODULE" in extension.code("cuda_sources"):
        return []
    defined = cpp_functions.host_definitions(extension.code("cuda_sources"))
    return [name for name in defined if name in extension.called()]


def _declaration(function: Function) -> str:
    if not function.namespace:
        return function.declaration
    scope = function.namespace
    return f"namespace {scope} {{ {function.declaration} }} using {scope}::{function.name};"


def _with_declarations(extension: Extension, lines: str, did: str) -> Extension | None:
    texts = extension.texts("cpp_sources")
    if texts is None:
        return None
    if not texts:
        return extension.with_argument("cpp_sources", _literal(lines), did)
    last = texts[-1]
    return extension.with_body(last, "\n".join(part for part in (last.body.rstrip(), lines) if part), did)


def _literal(text: str) -> str:
    return f'r"""\n{text}\n"""' if "\n" in text else f'"{text}"'


def _listed(names: list[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def agree(extension: Extension, finding: Finding) -> Extension | None:
    """Change the declaration to match the definition's types and namespace, or remove `static` from it."""
    named = re.match(r"`(\w+)`", finding.message)
    defined = [
        f
        for f in cpp_functions.functions(extension.code("cuda_sources"))
        if f.body and named and f.name == named[1]
    ]
    if len(defined) != 1 or not defined[0].on_host:
        return None
    function = defined[0]
    if "static" in function.specifiers:
        pattern = re.compile(rf"\bstatic\s+(?=(?:inline\s+)?[\w:<>,&* ]*\b{function.name}\s*\()")
        return extension.with_bodies(
            "cuda_sources", pattern, "", f"made {function.name} visible: no `static`"
        )
    for text in extension.texts("cpp_sources") or ():
        for declared in cpp_functions.functions(text.value):
            if declared.name == function.name and declared.body is None and text.body == text.value:
                end = text.value.index(";", declared.end) + 1
                body = text.body[: declared.start] + _declaration(function) + text.body[end:]
                return extension.with_body(text, body, f"declared {function.name} as it is defined")
    return None


def name_functions(extension: Extension, finding: Finding) -> Extension | None:
    """Replace signatures in `functions` by names, and turn the extension's name into a valid identifier."""
    own = extension.argument("name")
    if isinstance(own, ast.Constant) and isinstance(own.value, str) and not re.fullmatch(r"\w+", own.value):
        spelt = re.sub(r"\W+", "_", own.value)
        return extension.with_argument("name", f'"{spelt}"', f"named the extension {spelt}")
    listed = extension.functions()
    if listed is None:
        return None
    found = [_SIGNATURE.search(entry) for entry in listed]
    names = [match[1] if match else entry for match, entry in zip(found, listed, strict=True)]
    if names == listed or not all(re.fullmatch(r"[A-Za-z_]\w*", name) for name in names):
        return None
    return extension.with_argument("functions", _listed(names), "wrote names for the signatures in functions")


def bind_launcher(extension: Extension, finding: Finding) -> Extension | None:
    """Bind the host functions that Python calls, instead of kernels that it does not call."""
    names = extension.functions()
    kernels = cpp_functions.kernels(extension.code("cuda_sources"))
    if names is None or any(name in kernels and name in extension.called() for name in names):
        return None
    defined = cpp_functions.host_definitions(extension.code("cuda_sources"))
    kept = [name for name in names if name not in kernels]
    wanted = kept + [name for name in defined if name in extension.called() and name not in kept]
    if not wanted:
        return None
    did = f"bound {', '.join(wanted)} instead of a kernel"
    made: Extension | None = extension
    for text in extension.texts("cpp_sources") or ():
        for declared in reversed(cpp_functions.functions(text.value)):
            if "__global__" in declared.specifiers and declared.body is None and text.body == text.value:
                end = text.value.index(";", declared.end) + 1
                body = text.body[: declared.start] + text.body[end:]
                made = made and made.with_body(text, body, "removed the kernel's declaration")
    return made and made.with_argument("functions", _listed(wanted), did)


def move_device_code(extension: Extension, finding: Finding) -> Extension | None:
    """Move device code to cuda_sources, and declare the bound functions in cpp_sources."""
    cpp, cuda = extension.argument("cpp_sources"), extension.argument("cuda_sources")
    names = extension.functions()
    if cpp is None or names is None or not cpp_functions.has_device_code(extension.code("cpp_sources")):
        return None
    everything = extension.code("cpp_sources") + "\n" + extension.code("cuda_sources")
    defined = {f.name: f for f in cpp_functions.functions(everything) if f.body and f.on_host}
    if any(name not in defined for name in names):
        return None
    moved = extension.source[slice(*extension.span(cpp))]
    if cuda is not None and any(f.body for f in cpp_functions.functions(extension.code("cuda_sources"))):
        moved = f"[{moved}, {extension.source[slice(*extension.span(cuda))]}]"
    declarations = "\n".join(_declaration(defined[name]) for name in names)
    made = extension.with_argument("cpp_sources", _literal(declarations), "moved device code to cuda_sources")
    return made and made.with_argument("cuda_sources", moved, "moved device code to cuda_sources")


def define_once(extension: Extension, finding: Finding) -> Extension | None:
    """Keep a function that both sources define identically only in cuda_sources."""
    there = {f.name: f for f in cpp_functions.functions(extension.code("cuda_sources")) if f.body}
    cuda = extension.code("cuda_sources")
    for text in extension.texts("cpp_sources") or ():
        for function in cpp_functions.functions(text.value):
            twin = there.get(function.name)
            if function.body is None or twin is None or twin.body is None or text.body != text.value:
                continue
            if text.value[slice(*function.body)].split() != cuda[slice(*twin.body)].split():
                return None
            body = text.body[: function.start] + _declaration(twin) + text.body[function.body[1] :]
            return extension.with_body(text, body, f"defined {function.name} in cuda_sources alone")
    return None


def bind_once(extension: Extension, finding: Finding) -> Extension | None:
    """Remove either `functions` or the PYBIND11_MODULE, keeping the one with all names that Python calls."""
    names = set(extension.functions() or ())
    for source in ("cpp_sources", "cuda_sources"):
        for text in extension.texts(source) or ():
            found = _MODULE.search(text.body)
            end = closing_brace(text.body, found.end()) if found else None
            if found is None or end is None:
                continue
            module = set(_BOUND.findall(text.body[found.start() : end]))
            if not (module - names) & extension.called():
                body = text.body[: found.start()] + text.body[end + 1 :]
                return extension.with_body(text, body, "removed the PYBIND11_MODULE beside functions")
            if not (names - module) & extension.called():
                return extension.without_argument("functions", "removed functions beside the PYBIND11_MODULE")
    return None
