"""Read C++ and CUDA text with tree-sitter and list what its host code declares and uses.

A use is a name that the text does not declare where it is used: called, passed on, taken the address of or
named as a type. Names are resolved through namespaces, aliases and `using`; scopes are those of C++.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import tree_sitter
import tree_sitter_cuda

Path = tuple[str, ...]
MODULE_MACROS = frozenset(
    ("PYBIND11_MODULE", "TORCH_LIBRARY", "TORCH_LIBRARY_FRAGMENT", "TORCH_LIBRARY_IMPL")
)
"""Macros whose body runs when the library is loaded and whose last argument names the module."""
_CLASSES = frozenset(("struct_specifier", "class_specifier", "union_specifier"))
_DEVICE = frozenset(("__device__", "__global__"))
_PARAMETERS = frozenset(("parameter_list", "template_parameter_list", "lambda_capture_specifier"))
_NAMES = frozenset(("identifier", "type_identifier", "namespace_identifier", "field_identifier"))
TEMPLATES = frozenset(("template_function", "template_type", "template_method"))


@cache
def _parser() -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))


def parsed(text: str) -> tree_sitter.Node:
    """Return the root of the syntax tree."""
    return _parser().parse(text.encode()).root_node


def text_of(node: tree_sitter.Node | None) -> str:
    return (node.text or b"").decode(errors="replace") if node is not None else ""


class Function(NamedTuple):
    """A function of the candidate with a body."""

    path: Path
    least: int
    most: int
    takes_tensor: bool
    returns_tensor: bool
    is_template: bool
    is_constexpr: bool
    is_device: bool = False
    """True if it runs on the GPU alone."""


@dataclass
class Declared:
    """Declarations of the sources of one build, in namespaces and classes."""

    names: dict[Path, set[str]] = field(default_factory=dict)
    functions: dict[str, list[Function]] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)
    fields: dict[str, str] = field(default_factory=dict)
    """Types of the members that are variables, as text."""
    classes: set[str] = field(default_factory=set)
    working_classes: set[str] = field(default_factory=set)
    """Classes with a constructor or destructor that does something."""
    parts: dict[str, str] = field(default_factory=dict)
    """Text of each class without its functions' bodies, which names its bases and members."""
    aliases: dict[str, Path] = field(default_factory=dict)
    opened: set[Path] = field(default_factory=set)
    function_types: set[str] = field(default_factory=set)
    """Aliases of function pointers."""

    def add(self, path: Path, name: str) -> None:
        if name:
            self.names.setdefault(path, set()).add(name)

    def resolved(self, path: Path) -> Path:
        """Return the path with the aliases in its first component replaced."""
        for _ in range(8):
            target = self.aliases.get(path[0]) if path else None
            if target is None or target[0] == path[0]:
                return path
            path = (*target, *path[1:])
        return path

    def sees(self, name: str, place: Path) -> bool:
        """Return True if a declaration of the candidate is visible at this place under its simple name."""
        if any(name in self.names.get(place[:length], ()) for length in range(len(place) + 1)):
            return True
        return any(name in self.names.get(self.resolved(path), ()) for path in self.opened)

    def has(self, path: Path) -> bool:
        """Return True if the candidate declares what this qualified path names."""
        *scope, name = (part for part in path if part)
        ending = tuple(scope)
        return any(
            name in names
            for place, names in self.names.items()
            if place[len(place) - len(ending) :] == ending
        ) and (bool(ending) or name in self.names.get((), ()))


def is_device(node: tree_sitter.Node) -> bool:
    """Return True for a function or a lambda that runs on the GPU alone."""
    words = _head(node)
    return not _DEVICE.isdisjoint(words) and "__host__" not in words


def is_on_both_sides(node: tree_sitter.Node) -> bool:
    """Return True for a function or a lambda that is compiled for the host and for the GPU."""
    return {"__host__", "__device__"} <= _head(node)


def _head(node: tree_sitter.Node) -> set[str]:
    """Return the words in front of a function's body, without its parameters."""
    body = node.child_by_field_name("body")
    end = body.start_byte if body is not None else node.end_byte
    return {text_of(leaf) for leaf in leaves(node, end, _PARAMETERS)}


def leaves(
    node: tree_sitter.Node, end: int | None = None, without: frozenset[str] = frozenset()
) -> Iterator[tree_sitter.Node]:
    """Yield the leaves of a node that begin before the byte `end` and are not within nodes of some types."""
    pending = [node]
    while pending:
        part = pending.pop()
        if (end is not None and part.start_byte >= end) or part.type in without:
            continue
        if part.child_count:
            pending += reversed(part.children)
        else:
            yield part


def path_of(node: tree_sitter.Node | None) -> Path:
    """Return the components of a name; the first is empty for a name that begins with `::`."""
    if node is None:
        return ()
    if node.type in ("qualified_identifier", "nested_namespace_specifier"):
        parts: Path = ()
        for number, child in enumerate(node.children):
            if child.type == "::":
                parts = ("",) if number == 0 else parts
            elif child.is_named:
                parts += path_of(child)
        return parts
    if node.type in TEMPLATES:
        return path_of(node.child_by_field_name("name"))
    if node.type in ("dependent_name", "type_descriptor", "dependent_type"):
        return next((path_of(child) for child in node.named_children if path_of(child)), ())
    if node.type in _NAMES or node.type in ("destructor_name", "operator_name", "primitive_type"):
        return (text_of(node),)
    return ()


def declared_name(node: tree_sitter.Node | None) -> tree_sitter.Node | None:
    """Return the node of the name that a declarator declares."""
    while node is not None and node.type not in _NAMES | TEMPLATES:
        if node.type in (
            "qualified_identifier",
            "operator_name",
            "destructor_name",
            "structured_binding_declarator",
        ):
            return node
        inner = node.child_by_field_name("declarator") or node.child_by_field_name("name")
        if inner is None:
            kinds = (*_NAMES, "qualified_identifier", "operator_name", "destructor_name")
            inner = next((c for c in node.named_children if "declarator" in c.type or c.type in kinds), None)
        node = inner
    return node


def function_declarator(node: tree_sitter.Node | None) -> tree_sitter.Node | None:
    """Return the function declarator within a declarator, or None if no function is declared."""
    while node is not None and node.type != "function_declarator":
        node = node.child_by_field_name("declarator") or next(
            (child for child in node.named_children if "declarator" in child.type), None
        )
    if node is not None and node.child_by_field_name("declarator") is not None:
        inner = node.child_by_field_name("declarator")
        if inner is not None and inner.type == "parenthesized_declarator":
            return None
    return node


def parameters_of(declarator: tree_sitter.Node | None) -> list[tree_sitter.Node]:
    inner = declarator.child_by_field_name("parameters") if declarator is not None else None
    return [] if inner is None else [child for child in inner.named_children if "parameter" in child.type]


def declarations(roots: Iterable[tree_sitter.Node]) -> Declared:
    """Collect what is declared in namespaces and classes, function bodies excluded."""
    found = Declared()
    for root in roots:
        Collector(found).block(root, (), False)
    for _ in range(8):
        # A class works while loading if one of its bases or members does.
        for name, words in found.parts.items():
            if not found.working_classes.isdisjoint(words.split()):
                found.working_classes.add(name)
    return found


class Collector:
    """Walk that records declarations, outside the bodies of functions."""

    def __init__(self, found: Declared) -> None:
        self.found = found

    def block(self, node: tree_sitter.Node, path: Path, in_class: bool) -> None:
        for child in node.children:
            self.item(child, path, in_class, False)

    def item(self, node: tree_sitter.Node, path: Path, in_class: bool, is_template: bool) -> None:
        found, name = self.found, node.child_by_field_name("name")
        if node.type == "namespace_definition":
            body = node.child_by_field_name("body")
            if body is not None:
                self.block(body, (*path, *path_of(name)), False)
            if name is not None:
                found.add(path, path_of(name)[0])
        elif node.type == "template_declaration":
            for child in node.named_children:
                self.item(child, path, in_class, True)
        elif node.type in ("linkage_specification", "ERROR", "declaration_list", "friend_declaration"):
            self.block(node, path, in_class)
        elif node.type in _CLASSES or node.type == "enum_specifier":
            self.type_definition(node, path)
        elif node.type == "namespace_alias_definition":
            target = next((path_of(child) for child in node.named_children[1:]), ())
            found.add(path, text_of(name))
            found.aliases[text_of(name)] = target
        elif node.type in ("alias_declaration", "type_definition"):
            self.alias(node, path, in_class)
        elif node.type == "using_declaration":
            self.using(node, path)
        elif node.type == "function_definition":
            self.function(node, path, in_class, is_template)
        elif node.type in ("declaration", "field_declaration"):
            self.variables(node, path, in_class)
        elif node.type == "concept_definition":
            found.add(path, text_of(name))

    def type_definition(self, node: tree_sitter.Node, path: Path) -> None:
        name, body = path_of(node.child_by_field_name("name")), node.child_by_field_name("body")
        if body is None:
            return
        if name:
            self.found.add((*path, *name[:-1]), name[-1])
            self.found.classes.add(name[-1])
            fields = [child for child in body.named_children if child.type == "field_declaration"]
            held = [c for c in fields if function_declarator(c.child_by_field_name("declarator")) is None]
            bases = [child for child in node.named_children if child.type == "base_class_clause"]
            parts = [child for child in (*held, *bases) if "*" not in text_of(child)]
            words = [text_of(leaf) for child in parts for leaf in leaves(child)]
            self.found.parts[name[-1]] = " ".join(words)
        inner = (*path, *name)
        for child in body.named_children:
            if child.type == "enumerator":
                word = text_of(child.child_by_field_name("name"))
                self.found.add(inner, word)
                self.found.add(path, word)
            else:
                self.item(child, inner, True, False)

    def alias(self, node: tree_sitter.Node, path: Path, in_class: bool) -> None:
        target = node.child_by_field_name("type")
        if node.type == "type_definition" and target is not None:
            self.item(target, path, in_class, False)
        for child in node.children_by_field_name("name") or node.children_by_field_name("declarator"):
            word = text_of(declared_name(child))
            self.found.add(path, word)
            if in_class:
                self.found.members.add(word)
            if "(*" in text_of(node).replace(" ", "") or "decltype(&" in text_of(node).replace(" ", ""):
                self.found.function_types.add(word)
            inner = target.child_by_field_name("type") if target is not None else None
            aliased = path_of(inner) or path_of(target)
            if aliased and aliased != (word,):
                self.found.aliases[word] = aliased

    def using(self, node: tree_sitter.Node, path: Path) -> None:
        target = next((path_of(child) for child in node.named_children), ())
        if any(child.type == "namespace" for child in node.children):
            self.found.opened.add(tuple(part for part in target if part))
        elif target:
            self.found.add(path, target[-1])

    def function(self, node: tree_sitter.Node, path: Path, in_class: bool, is_template: bool) -> None:
        declarator = function_declarator(node.child_by_field_name("declarator"))
        name = path_of(declared_name(declarator))
        if not name or node.child_by_field_name("body") is None and "default_method_clause" not in str(node):
            return
        head = text_of(node).split("{", 1)[0]
        parameters = parameters_of(declarator)
        optional = sum("optional" in p.type or "variadic" in p.type for p in parameters)
        most = 99 if any("variadic" in p.type for p in parameters) or "..." in head else len(parameters)
        place = (*path, *name[:-1])
        returned = text_of(node.child_by_field_name("type")) + text_of(declarator).rpartition(")")[2]
        made = Function(
            (*place, name[-1]), len(parameters) - optional, most,
            any("Tensor" in text_of(p) and not _is_writable(p) for p in parameters),
            "Tensor" in returned, is_template, "constexpr" in head or "consteval" in head,
            is_device(node),
        )  # fmt: skip
        self.found.functions.setdefault(name[-1], []).append(made)
        owner = place[-1] if place else ""
        if name[-1].lstrip("~") == owner and owner and not made.is_constexpr:
            body = node.child_by_field_name("body")
            works = (
                any(child.type != "comment" for child in body.named_children) if body is not None else False
            )
            if works or "call_expression" in str(node):
                self.found.working_classes.add(owner)
        self.found.add(place, name[-1])
        if in_class or len(name) > 1:
            self.found.members.add(name[-1])

    def variables(self, node: tree_sitter.Node, path: Path, in_class: bool) -> None:
        kind = node.child_by_field_name("type")
        if kind is not None:
            self.item(kind, path, in_class, False)
        foreign = any(text_of(child) == "extern" for child in node.children) or (
            node.parent is not None and node.parent.type == "linkage_specification"
        )
        for child in node.children_by_field_name("declarator"):
            name = path_of(declared_name(child))
            declares_function = function_declarator(child) is not None
            is_prototype = declares_function and child.type != "init_declarator"
            if not name or (is_prototype and not in_class) or (foreign and child.type != "init_declarator"):
                continue
            self.found.add((*path, *name[:-1]), name[-1])
            if in_class:
                self.found.members.add(name[-1])
                if not is_prototype:
                    self.found.fields[name[-1]] = text_of(kind)


def _is_writable(parameter: tree_sitter.Node) -> bool:
    words = text_of(parameter)
    return "&" in words and "const" not in words
