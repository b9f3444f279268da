"""Tell which expressions of host code are tensors, as far as their text shows it."""

import re
from collections.abc import Sequence

import tree_sitter

from agent.screen import host_tree as tree
from agent.screen.host_names import FACTORIES, PLAIN_METHODS, TORCH
from agent.screen.host_tree import Declared, text_of

_TENSOR = re.compile(r"\bTensor\b")
_SEVERAL = re.compile(
    r"\b(?:vector|array|tuple|pair|optional|map|ArrayRef|SmallVector|List|initializer_list)\b"
)
_LISTS = re.compile(r"\b(?:TensorList|tensor_list|variable_list)\b")
GENERIC = "<any>"
"""Kind of a parameter whose type the call decides."""
_PACKS = frozenset(("make_tuple", "make_pair", "tie", "forward_as_tuple", "tuple", "pair", "vector", "array"))
_COMPOUND = frozenset(
    [
        "binary_expression",
        "conditional_expression",
        "assignment_expression",
        "unary_expression",
        "comma_expression",
    ]
)
_ELEMENTS = frozenset(
    ("at", "back", "front", "value", "second", "first", "get", "value_or", "begin", "operator[]")
)
_UNWRAPPED = frozenset(("move", "forward", "get", "ref", "as_const"))


def kind_of_type(words: str) -> str:
    """Return "Tensor", "Tensors" for what holds some, or the text of any other type."""
    if _LISTS.search(words) or (_TENSOR.search(words) and _SEVERAL.search(words)):
        return "Tensors"
    return "Tensor" if _TENSOR.search(words) and "::Tensor::" not in words else words


def _is_function(name: str) -> bool:
    return name[:1].islower() and (name in FACTORIES or name not in TORCH)


class Values:
    """Types of expressions, from the declarations that they lead to."""

    def __init__(self, declared: Declared) -> None:
        self.declared = declared

    def kind(self, node: tree_sitter.Node, names: Sequence[dict[str, str]]) -> str:
        """Return the kind of an expression by `kind_of_type`; empty if unknown."""
        part: tree_sitter.Node | None
        if node.type in ("identifier", "field_identifier"):
            word = text_of(node)
            local = next((scope[word] for scope in reversed(names) if word in scope), None)
            return self._named(local if local is not None else self.declared.fields.get(word, ""))
        if node.type in ("parenthesized_expression", "pointer_expression", "subscript_expression"):
            part = node.child_by_field_name("argument") or next(iter(node.named_children), None)
            inner = self.kind(part, names) if part is not None else ""
            if inner == "Tensors" and node.type != "parenthesized_expression":
                return "Tensor"
            return "" if text_of(node).startswith("&") else inner
        if node.type == "field_expression":
            return self._named(self.declared.fields.get(text_of(node.child_by_field_name("field")), ""))
        if node.type == "call_expression":
            return self._of_call(node, names)
        if node.type in _COMPOUND:
            kinds = {self.kind(child, names) for child in node.named_children}
            return "Tensor" if "Tensor" in kinds else GENERIC if GENERIC in kinds else ""
        if node.type in ("initializer_list", "argument_list"):
            kinds = {self.kind(child, names) for child in node.named_children}
            return "" if kinds.isdisjoint(("Tensor", "Tensors")) else "Tensors"
        if node.type == "compound_literal_expression":
            value = node.child_by_field_name("value")
            held = self.kind(value, names) if value is not None else ""
            kind = self._named(text_of(node.child_by_field_name("type")))
            return held if held and _SEVERAL.search(kind) else kind
        return ""

    def _named(self, words: str) -> str:
        alias = self.declared.aliases.get(words.replace("const", "").strip(" &"))
        return kind_of_type("::".join(alias) if alias else words)

    def _of_call(self, node: tree_sitter.Node, names: Sequence[dict[str, str]]) -> str:
        function = node.child_by_field_name("function")
        given = node.child_by_field_name("arguments")
        if function is None:
            return ""
        if function.type == "field_expression":
            receiver = function.child_by_field_name("argument")
            method = tree.path_of(function.child_by_field_name("field"))
            kind = self.kind(receiver, names) if receiver is not None else ""
            if kind == "Tensors":
                return "Tensor" if method and method[-1] in _ELEMENTS else ""
            return "Tensor" if kind == "Tensor" and method and method[-1] not in PLAIN_METHODS else ""
        path = self.declared.resolved(tree.path_of(function))
        name = path[-1] if path else ""
        if name in _UNWRAPPED and given is not None and given.named_children:
            inner = self.kind(given.named_children[0], names)
            return "Tensor" if inner in ("Tensor", "Tensors") else inner
        if name in _PACKS and given is not None and self.kind(given, names):
            return "Tensors"
        if len(path) == 2 and path[0] in ("torch", "at") and (name == "Tensor" or _is_function(name)):
            return "Tensor"
        if any(made.returns_tensor for made in self.declared.functions.get(name, ())):
            several = name not in self.declared.classes
            return "Tensor" if several else ""
        return name if name in self.declared.classes else ""

    def generic_call(self, node: tree_sitter.Node, names: Sequence[dict[str, str]]) -> str:
        """Return the function object of the standard library that this call applies to a tensor."""
        function, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or given is None:
            return ""
        words = text_of(function)
        name = next((word for word in _FUNCTORS if re.search(rf"\b{word}\b", words)), "")
        if name and any(self.kind(child, names) in ("Tensor", "Tensors") for child in given.named_children):
            return name
        return ""


_FUNCTORS = ("plus", "minus", "multiplies", "divides", "modulus", "negate", "accumulate", "inner_product",
             "transform_reduce", "partial_sum", "reduce", "operator")  # fmt: skip
