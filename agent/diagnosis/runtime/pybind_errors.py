"""Explanation of pybind11's TypeError at a bound function: the argument that does not fit its parameter.

The messages come from pybind11 or from the emulator's bindings. The two differ only in tensors: pybind11
shows their values, the emulator their shape and dtype.
"""

import re

_PLAIN = {"SupportsInt": "int", "SupportsFloat": "float", "SupportsIndex": "int"}
_LONGEST = 40


def mismatch(message: str) -> str | None:
    """Compare the call with the signature in one sentence; None if the message is a different error."""
    called = re.match(r"(\w+)\(\): incompatible function arguments", message)
    if called is None:
        return None
    signature = re.search(r"^\s+1\. (.*)$", message, re.M)
    invoked = re.search(r"Invoked with:\s*(.*)", message, re.S)
    wanted = _wanted(signature[1]) if signature else []
    given = _given(invoked[1]) if invoked else []
    said = _difference(wanted, given)
    return f"`{called[1]}` takes ({', '.join(wanted)}), and is called with {said}."


def _wanted(signature: str) -> list[str]:
    """Parse `(arg0: torch.Tensor, arg1: typing.SupportsFloat | ...) -> ...` into `Tensor`, `float`."""
    found = []
    for part in _split(signature.rpartition(" -> ")[0].strip()[1:-1]):
        kind = part.partition(":")[2].strip() or part
        name = kind.split("|")[0].strip().rpartition(".")[2]
        found.append(_PLAIN.get(name, name))
    return found


def _given(words: str) -> list[str]:
    positional, _, keywords = words.partition("; kwargs: ")
    named = [f"{part.partition('=')[0]}={_shown(part.partition('=')[2])}" for part in _split(keywords)]
    return [_shown(part) for part in _split(positional)] + named


def _shown(value: str) -> str:
    """Describe the type of an argument as pybind11 prints its value."""
    own = re.match(r"tensor\(shape=(\[[^\]]*\]), dtype=torch\.(\w+)\)", value)
    if own:
        return f"a {own[2]} tensor {own[1]}"
    if value.startswith(("tensor(", "Parameter containing")):
        return "a tensor"
    if re.fullmatch(r"-?\d+", value):
        return f"int {value}"
    if re.fullmatch(r"-?\d*\.?\d*(?:e[-+]?\d+)?", value):
        return f"float {value}"
    return value[:_LONGEST]


def _difference(wanted: list[str], given: list[str]) -> str:
    shown = f"({', '.join(given)})"
    if len(wanted) != len(given):
        return f"{len(given)} argument{'s' if len(given) != 1 else ''} in place of {len(wanted)}: {shown}"
    for number, (parameter, argument) in enumerate(zip(wanted, given, strict=True), 1):
        if "=" in argument and not argument.startswith("arg"):
            return f"the keyword `{argument.partition('=')[0]}`, which it does not know: {shown}"
        tensor = "tensor" in argument
        if tensor != ("Tensor" in parameter) or (parameter == "int" and argument.startswith("float")):
            return f"{argument} where argument {number} is `{parameter}`: {shown}"
    return shown


def _split(words: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    parts, depth, begun, quote = [], 0, 0, ""
    for position, character in enumerate(words):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(words[begun:position])
            begun = position + 1
    parts.append(words[begun:])
    return [part.strip() for part in parts if part.strip()]
