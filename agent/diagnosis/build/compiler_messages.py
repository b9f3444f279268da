"""Translation of one error of g++ or nvcc into a stable kind, a cause in plain words and a fix.

Only the text of a message and its source line are read, no other output of the build. The wordings are those
of g++ 9 to 14 and of nvcc 11 to 13 (EDG's front end). Unknown messages keep the compiler's words.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from agent.diagnosis.build import headers

Words = Callable[[re.Match[str], str], str]


class Meaning(NamedTuple):
    """Kind and message of the finding for a compiler error."""

    kind: str
    message: str


class _Rule(NamedTuple):
    kind: str
    pattern: re.Pattern[str]
    words: Words


_NAMES = (
    r"['\"](?P<name>[\w:]+)['\"] (?:was not declared|has not been declared|is not a member of|does not name "
    r"a type"
    r"|in namespace|is not a class, namespace)",
    r'identifier "(?P<name>[\w:]+)" is undefined',
    r'(?:namespace|class) "(?P<scope>[\w:]+)" has no member "(?P<name>\w+)"',
    r'"(?P<name>[\w:]+)" is not a (?:class or|namespace|template|type name)',
    r"use of undeclared identifier '(?P<name>\w+)'",
)
_SUGGESTED = re.compile(r"did you mean '([^']+)'")
_QUALIFIED_BY = re.compile(r"(?:is not a member of|in namespace) '([\w:]+)'")
_DATA_PTR = re.compile(r"(?:data_ptr|data)<([^<>]+(?:<[^<>]*>)?)>\s*\(\)")


def meaning(text: str, line: str, statement: str = "") -> Meaning | None:
    """Return the meaning of the message `text` about the source line `line`; None if the message is unknown.

    `statement` is the line with the rest of its statement, for a launch that spans several lines.
    """
    shared = re.search(r"extern\s+__shared__", line)
    if shared and re.search(r"incompatible with previous|conflicting declaration|redeclaration", text):
        return Meaning("shared-type-clash", _shared_clash(text))
    for rule in _RULES:
        found = rule.pattern.search(text)
        if found:
            return Meaning(rule.kind, rule.words(found, line))
    return _of_conversion(text, statement or line) or _of_name(text, line)


def _of_name(text: str, line: str) -> Meaning | None:
    found = next((match for pattern in _NAMES if (match := re.search(pattern, text))), None)
    if found is None:
        return _unqualified_namespace(text, line)
    name = found["name"]
    scope = found.groupdict().get("scope") or (m[1] if (m := _QUALIFIED_BY.search(text)) else "")
    full = f"{scope}::{name}" if scope else name
    header = headers.include_for(full) if scope not in ("torch", "at") or name == "cuda" else None
    if header:
        words = f"`{full}` is declared in <{header}>, which is not included: {headers.to_add(header)}."
        return Meaning("missing-include", words)
    suggested = _SUGGESTED.search(text)
    mend = f"; the compiler suggests `{suggested[1]}`" if suggested else ""
    return Meaning("undeclared-name", f"`{full}` is used here and nothing declares it{mend}.")


def _unqualified_namespace(text: str, line: str) -> Meaning | None:
    """Find the name before `::` in the line, since nvcc only says that it is no namespace."""
    if "must be a class or namespace name" not in text:
        return None
    for name in re.findall(r"\b(\w+)\s*::", line):
        header = headers.include_for(name)
        if header:
            words = f"`{name}` is declared in <{header}>, which is not included: {headers.to_add(header)}."
            return Meaning("missing-include", words)
    return Meaning("undeclared-name", "What stands before `::` here is declared nowhere.")


def _shared_clash(text: str) -> str:
    named = re.search(r"""['"](?:[\w:<> ]+\s)?(\w+)(?:\s*\[\s*\])?['"]""", text)
    name = named[1] if named else "smem"
    return (
        f"`extern __shared__ ... {name}[]` is declared with two types, and all kernels of the file share "
        f"one such "
        "name: give each type a name of its own, or declare `extern __shared__ __align__(16) unsigned char "
        f"{name}_bytes[]` and cast."
    )


def _converts(match: re.Match[str], line: str) -> str:
    given, wanted = match["given"], match["wanted"]
    pointer = _pointer_to(given, line)
    if pointer and "*" in wanted:
        return (
            f"`data_ptr<{pointer}>()` gives a `{given}`, and `{wanted}` is wanted here: the type of "
            f"data_ptr has "
            "to be the kernel's and the tensor's."
        )
    return f"A `{given}` is given where `{wanted}` is wanted, and it does not convert."


def _pointer_to(given: str, line: str) -> str | None:
    """Return the T of the `data_ptr<T>` behind a pointer of type `given`; None if several are possible."""
    found = _DATA_PTR.findall(line) if "*" in given else []
    alike = [kind for kind in found if kind in given]
    return next(iter(alike), found[0] if len(set(found)) == 1 else None)


def _kind_of_conversion(line: str, match: re.Match[str]) -> str:
    pointers = "*" in match["wanted"] and _pointer_to(match["given"], line)
    return "data-ptr-type" if pointers else "type-mismatch"


def _of_conversion(text: str, line: str) -> Meaning | None:
    for pattern in _CONVERSIONS:
        found = re.search(pattern, text)
        if found:
            return Meaning(_kind_of_conversion(line, found), _converts(found, line))
    return None


def _rule(kind: str, pattern: str, words: str | Words) -> _Rule:
    if isinstance(words, str):
        template = words
        return _Rule(kind, re.compile(pattern), lambda match, line: template.format(**match.groupdict()))
    return _Rule(kind, re.compile(pattern), words)


def _syntax(match: re.Match[str], line: str) -> str:
    return f"The code does not read as C++ here: {match[0]}."


_CONVERSIONS = (
    r"cannot convert '(?P<given>[^']+)'(?: \{aka '[^']+'\})? to '(?P<wanted>[^']+)'",
    r"could not convert '.*' from '(?P<given>[^']+)' to '(?P<wanted>[^']+)'",
    r"invalid conversion from '(?P<given>[^']+)'(?: \{aka '[^']+'\})? to '(?P<wanted>[^']+)'",
    r"conversion from '(?P<given>[^']+)' to non-scalar type '(?P<wanted>[^']+)' requested",
    r'argument of type "(?P<given>[^"]+)"(?: \(aka "[^"]+"\))? is incompatible with parameter of type '
    r'"(?P<wanted>[^"]+)"',
    r'a value of type "(?P<given>[^"]+)"(?: \(aka "[^"]+"\))? cannot be (?:used to initialize an '
    r'entity|assigned to an '
    r'entity) of type "(?P<wanted>[^"]+)"',
    r'return value type "?(?P<given>[^"]+)"? does not match the function type "?(?P<wanted>[^"]+)"?',
    r'no suitable (?:user-defined )?conversion(?: function)? from "(?P<given>[^"]+)" to "(?P<wanted>[^"]+)"',
    r'no suitable constructor exists to convert from "(?P<given>[^"]+)" to "(?P<wanted>[^"]+)"',
)  # fmt: skip
_RULES = (
    _rule(
        "deprecated-call",
        r"DeprecatedTypeProperties|(?:class |struct )?'?at::Tensor'?.* has no member named '(?:type|data)'"
        r"|class \"at::Tensor\" has no member \"(?:type|data)\"|data\(\) const.*is deprecated",
        "`.type()` and `.data<T>()` of a tensor are gone from torch: write `x.scalar_type()` and "
        "`x.data_ptr<T>()`.",
    ),
    _rule(
        "double-binding",
        r"redefinition of '[^']*(?:kw_module_init|PyInit_|pybind11_init_)[^']*'"
        r"|multiple definition of `(?:PyInit_|pybind11_init)",
        "The sources hold a PYBIND11_MODULE and `functions` generates another: keep one of the two, as a "
        "rule "
        "`functions`.",
    ),
    _rule(
        "name-clash",
        r"(?:binding `(?P<name>\w+)`.*)?<unresolved overloaded function type>",
        lambda match, line: f"`{match['name'] or 'The function'}` is declared with several signatures, and a "
        "binding cannot tell which is meant: give each a name of its own.",
    ),
    _rule(
        "host-function-in-device-code",
        r'calling a (?:constexpr )?__host__ function\("?(?P<name>.+?)"?\) from a '
        r'__(?P<place>global|device)__ '
        r'function',
        "`{name}` exists on the host only and is called in a `__{place}__` function: use CUDA's own "
        "function, or "
        "mark it `__device__`.",
    ),
    _rule(
        "wrong-call",
        r"too (?P<how>few|many) arguments (?:to function '(?P<name>[^']+)'|in function call)",
        lambda match, line: "This call gives too {} arguments{}.".format(
            match["how"], f" to `{match['name']}`" if match["name"] else ""
        ),
    ),
    _rule(
        "wrong-call",
        r"no matching function for call to '(?P<name>.+)'",
        "No function takes this call: `{name}`; the number or the types of its arguments do not fit.",
    ),
    _rule(
        "wrong-call",
        r'no instance of (?:overloaded function|function template|constructor) "(?P<name>[^"]+)" matches the '
        r"argument list",
        "No version of `{name}` takes these arguments: their number or types do not fit.",
    ),
    _rule(
        "wrong-call",
        r"a __global__ function call must be configured",
        "A kernel is called like a function: launch it with `<<<grid, block>>>`.",
    ),
    _rule(
        "name-clash",
        r"(?:redefinition of '(?P<a>[^']+)'|function \"(?P<b>[^\"]+)\" has already been defined"
        r"|conflicting declaration (?:of )?'(?P<c>[^']+)'|ambiguating new declaration of '(?P<d>[^']+)'"
        r"|linkage specification is incompatible with previous \"(?P<e>[^\"]+)\")",
        lambda match, line: f"`{next(filter(None, match.groups()))}` is a name that is taken: it is defined "
        f"twice, or "
        "C, CUDA or torch has it. Give it another name.",
    ),
    _rule(
        "name-clash",
        r"(?:call of overloaded '(?P<a>[^']+)' is ambiguous|reference to '(?P<b>[^']+)' is ambiguous"
        r"|\"(?P<c>[^\"]+)\" is ambiguous|more than one instance of overloaded function \"(?P<d>[^\"]+)\")",
        lambda match, line: f"`{next(filter(None, match.groups()))}` means several functions here and none "
        f"fits "
        "best: give yours a name of its own, or cast the arguments.",
    ),
    _rule(
        "type-mismatch",
        r"(?:request for member '(?P<member>\w+)' in '.+', which is of non-class type '(?P<a>[^']+)'"
        r'|expression must have class type but it has type "(?P<b>[^"]+)")',
        lambda match, line: f"A `{match['a'] or match['b']}` has no members"
        + (f", and `{match['member']}` is asked of one." if match["member"] else ", and one is asked of it."),
    ),
    _rule(
        "syntax-error",
        r"expected (?!constructor)[^\n]+ (?:before|at end)[^\n]*|expected an? [^\n]+|stray '[^']+' in program"
        r"|missing terminating [^\n]+|unrecognized token|expected (?:unqualified-id|declaration)[^\n]*"
        r"|this declaration has no storage class or type specifier|expected constructor[^\n]*"
        r"|invalid (?:preprocessing directive|suffix)[^\n]*|unterminated [^\n]+|'else' without [^\n]+",
        _syntax,
    ),
)  # fmt: skip
