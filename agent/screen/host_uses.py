"""Record the names that host code uses: how each is used, where, and what is known of it."""

import re
from enum import Enum, auto
from typing import NamedTuple

import tree_sitter

from agent.screen import host_tree as tree
from agent.screen.host_names import LIBC, OPERATORS, REFUSED
from agent.screen.host_tree import Declared, Path, text_of
from agent.screen.host_values import GENERIC, Values

_WORD = re.compile(r"[A-Za-z_]\w*")
_CASTS = frozenset(("reinterpret_cast", "static_cast", "bit_cast"))


class Sort(Enum):
    """Way in which a name is used."""

    NAME = auto()
    """Not declared by the candidate where it is used."""
    MEMBER = auto()
    """Behind `.` or `->`."""
    OWN_CALL = auto()
    """A call of a function that the candidate defines in a namespace."""
    OPERATOR = auto()
    """An operator of C++ applied to a tensor."""
    ASSEMBLY = auto()
    ATTRIBUTE = auto()
    FUNCTION_CAST = auto()
    """A number or a pointer turned into a function."""
    LOADING = auto()
    """A call that runs while the library is loaded."""
    DEFINITION = auto()
    """A function of the candidate, by its name."""
    MODULE = auto()
    """A macro with the functions of the module."""


class Use(NamedTuple):
    """One use in host code. `row` counts from 0."""

    sort: Sort
    path: Path
    row: int
    called: bool = False
    arguments: int = 0
    device: bool = False
    detail: str = ""


class Scope(NamedTuple):
    """Surroundings of a node."""

    names: tuple[dict[str, str], ...] = ()
    """Local names with their types as text, innermost last."""
    place: Path = ()
    device: bool = False
    in_class: bool = False
    loading: bool = False
    """True outside functions, where initialisers run while the library is loaded."""
    both_sides: bool = False
    """True in a function for the host and the GPU, parts of which may be compiled for the GPU alone."""
    function: str = ""
    """Function or variable of a lambda around the node; empty for a lambda without a name."""


class Recorder:
    """Record of the uses in one tree; a walk decides what is visited, and in which scope."""

    def __init__(self, declared: Declared) -> None:
        self.declared = declared
        self.found: list[Use] = []
        self.values = Values(declared)
        self.generic: set[str] = set()
        """Functions that compute with parameters of any type."""
        self.passed_on: set[tuple[str, str]] = set()
        """Pairs of a function and another that it calls with such a parameter."""
        self.given_tensors: list[Use] = []
        """Calls with a tensor among the arguments, by the name of what is called."""

    def add(self, sort: Sort, path: Path, node: tree_sitter.Node, scope: Scope, detail: str = "") -> None:
        call = call_of(node)
        given = arguments(call)
        if sort in (Sort.NAME, Sort.OWN_CALL) and given:
            kinds = [self.values.kind(argument, scope.names) for argument in given]
            looked_up = path[-1].startswith("cudaGetDriverEntryPoint")
            detail = text_of(given[0]) if looked_up else "Tensor" if "Tensor" in kinds else ""
            if GENERIC in kinds and sort is Sort.NAME and path[-1] in OPERATORS and not scope.device:
                self.generic.add(scope.function)
        if call is not None and any(child.type == "kernel_call_syntax" for child in call.children):
            detail = "launch"
        elif sort is Sort.OWN_CALL and scope.both_sides:
            detail = detail or "both sides"
        row = node.start_point[0]
        self.found.append(Use(sort, path, row, call is not None, len(given), scope.device, detail))

    def generic_calls(self) -> list[Use]:
        """Return the calls that hand tensors to a function which computes with whatever it is given."""
        generic = set(self.generic)
        for _ in range(8):
            generic |= {caller for caller, called in self.passed_on if called in generic}
        return [use for use in self.given_tensors if use.detail in generic]

    def visit(self, node: tree_sitter.Node, scope: Scope) -> None:
        raise NotImplementedError

    def children(self, node: tree_sitter.Node, scope: Scope) -> None:
        for child in node.children:
            self.visit(child, scope)

    def name(self, node: tree_sitter.Node, scope: Scope) -> None:
        word = text_of(node)
        if any(word in names for names in reversed(scope.names)):
            return
        inherited = scope.in_class and word in self.declared.members and word not in REFUSED
        if inherited or self.declared.sees(word, scope.place):
            if word in self.declared.functions:
                self.add(Sort.OWN_CALL, (word,), node, scope)
            return
        self.add(Sort.NAME, (word,), node, scope)

    def _qualified_identifier(self, node: tree_sitter.Node, scope: Scope) -> None:
        self.template_arguments(node, scope)
        path = tree.path_of(node)
        if node.named_children and node.named_children[0].type == "decltype":
            self.children(node.named_children[0], scope)
            for part in path:
                self.add(Sort.MEMBER, (part,), node, scope, "::")
            return
        first = path[0] if path else ""
        if any(first in names for names in scope.names) and first not in self.declared.aliases:
            local = next(names[first] for names in reversed(scope.names) if first in names)
            # A template's parameter, or a class of the function's own.
            for part in path[1:]:
                self.add(Sort.MEMBER, (part,), node, scope, f"::{local}")
            return
        self.add(Sort.NAME, path, node, scope)

    _nested_namespace_specifier = _qualified_identifier

    def template_arguments(self, node: tree_sitter.Node, scope: Scope) -> None:
        for child in node.children:
            if child.type == "template_argument_list":
                self.children(child, scope)
            elif child.is_named and child.child_count:
                self.template_arguments(child, scope)

    def _field_expression(self, node: tree_sitter.Node, scope: Scope) -> None:
        receiver, member = node.child_by_field_name("argument"), node.child_by_field_name("field")
        if receiver is not None:
            self.visit(receiver, scope)
        if member is None or member.type == "destructor_name":
            return
        self.template_arguments(member, scope)
        path = tree.path_of(member)
        kind = self.values.kind(receiver, scope.names) if receiver is not None else ""
        if path:
            self.add(Sort.MEMBER, (path[-1],), node, scope, kind)

    def _field_identifier(self, node: tree_sitter.Node, scope: Scope) -> None:
        return


def call_of(node: tree_sitter.Node) -> tree_sitter.Node | None:
    """Return the call whose function this name is, or None if the name is not called."""
    parent = node.parent
    while parent is not None and (
        parent.type in tree.TEMPLATES | {"parenthesized_expression", "qualified_identifier"}
    ):
        if parent.child_by_field_name("arguments") == node:
            return None
        node, parent = parent, parent.parent
    if parent is not None and parent.type == "call_expression":
        return parent if parent.child_by_field_name("function") == node else None
    return None


def arguments(call: tree_sitter.Node | None) -> list[tree_sitter.Node]:
    given = call.child_by_field_name("arguments") if call is not None else None
    return [child for child in given.named_children if child.type != "comment"] if given is not None else []


def casts_to_function(function: tree_sitter.Node, declared: Declared) -> bool:
    if function.type != "template_function" or text_of(function.child_by_field_name("name")) not in _CASTS:
        return False
    return names_function_type(function.child_by_field_name("arguments"), declared)


def names_function_type(node: tree_sitter.Node | None, declared: Declared) -> bool:
    if node is None:
        return False
    words = {text_of(leaf) for leaf in tree.leaves(node)}
    plain = "".join(text_of(node).split())
    return "(*" in plain or "decltype(&" in plain or not words.isdisjoint(declared.function_types)


def may_call_the_host(device_code: str) -> bool:
    """Return True if a device function holds a word that only host code has a use for."""
    words = set(_WORD.findall(device_code))
    outside = not words.isdisjoint(("at", "torch", "py", "pybind11"))
    return outside or not words.isdisjoint(LIBC) or any(word.lstrip("_").startswith("Py") for word in words)


def has_value(parameter: tree_sitter.Node) -> bool:
    """Return True if what looks like a parameter names or holds a value."""
    return any(leaf.type in ("identifier", "type_identifier", "number_literal", "true", "false", "nullptr")
               for leaf in tree.leaves(parameter))  # fmt: skip


def variable_of(node: tree_sitter.Node) -> str:
    """Return the name of the variable that a lambda initialises."""
    parent = node.parent
    if parent is not None and parent.type == "init_declarator":
        return text_of(tree.declared_name(parent.child_by_field_name("declarator")))
    return ""


def is_c(node: tree_sitter.Node) -> bool:
    """Return True if the node is declared with the linkage of C."""
    outer: tree_sitter.Node | None = node
    while outer is not None and outer.type != "linkage_specification":
        outer = outer.parent
    return outer is not None
