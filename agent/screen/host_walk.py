"""Walk the host functions of a candidate and list every name that they use.

Methods are named after the nodes of the grammar. Functions that run on the GPU alone are walked too, since a
compiler for C++ takes them for host functions; their uses are marked.
"""

from collections.abc import Sequence

import tree_sitter

from agent.screen import host_tree as tree
from agent.screen.host_names import FACTORIES
from agent.screen.host_tree import Declared, text_of
from agent.screen.host_uses import (
    Recorder,
    Scope,
    Sort,
    Use,
    arguments,
    call_of,
    casts_to_function,
    has_value,
    is_c,
    may_call_the_host,
    names_function_type,
    variable_of,
)  # fmt: skip
from agent.screen.host_values import GENERIC

_SKIPPED = frozenset(("comment", "string_literal", "raw_string_literal", "char_literal", "number_literal",
                      "primitive_type", "statement_identifier", "auto", "field_designator"))  # fmt: skip


def uses(root: tree_sitter.Node, declared: Declared) -> list[Use]:
    """Return every use in the text of this tree, in the order of the walk."""
    walk = _Walk(declared)
    walk.children(root, Scope(loading=True))
    return [*walk.found, *walk.generic_calls()]


class _Walk(Recorder):
    def visit(self, node: tree_sitter.Node, scope: Scope) -> None:
        if node.type in _SKIPPED:
            return
        method = getattr(self, f"_{node.type}", None)
        if method is not None:
            method(node, scope)
        elif node.type in ("identifier", "type_identifier", "namespace_identifier"):
            self.name(node, scope)
        elif node.type in ("struct_specifier", "class_specifier", "union_specifier", "enum_specifier"):
            self.type_body(node, scope)
        elif node.type in ("attribute_specifier", "attribute_declaration", "ms_declspec_modifier"):
            if not scope.device:
                self.add(Sort.ATTRIBUTE, (), node, scope, text_of(node))
        else:
            self.children(node, scope)

    # Declarations

    def _using_declaration(self, node: tree_sitter.Node, scope: Scope) -> None:
        if any(child.type == "namespace" for child in node.children):
            return
        target = next((tree.path_of(child) for child in node.named_children), ())
        if target:
            self.add(Sort.NAME, target, node, scope)

    def _namespace_alias_definition(self, node: tree_sitter.Node, scope: Scope) -> None:
        name = text_of(node.child_by_field_name("name"))
        target = next((tree.path_of(child) for child in node.named_children[1:]), ())
        if scope.names and target:
            self.declared.aliases.setdefault(name, target)

    def _alias_declaration(self, node: tree_sitter.Node, scope: Scope) -> None:
        name, target = node.child_by_field_name("name"), node.child_by_field_name("type")
        if scope.names:
            scope.names[-1][text_of(name)] = text_of(target)
            inner = target.child_by_field_name("type") if target is not None else None
            if len(tree.path_of(inner)) > 1:
                self.declared.aliases.setdefault(text_of(name), tree.path_of(inner))
        if target is not None:
            self.visit(target, scope)

    def _type_definition(self, node: tree_sitter.Node, scope: Scope) -> None:
        kind = node.child_by_field_name("type")
        for child in node.children_by_field_name("declarator"):
            if scope.names:
                scope.names[-1][text_of(tree.declared_name(child))] = text_of(kind)
        if kind is not None:
            self.visit(kind, scope)

    def _namespace_definition(self, node: tree_sitter.Node, scope: Scope) -> None:
        body = node.child_by_field_name("body")
        path = tree.path_of(node.child_by_field_name("name"))
        if body is not None:
            self.children(body, scope._replace(place=(*scope.place, *path)))

    def type_body(self, node: tree_sitter.Node, scope: Scope) -> None:
        if node.type == "union_specifier" and "(*" in "".join(text_of(node).split()) and not scope.device:
            self.add(Sort.FUNCTION_CAST, (), node, scope)
        name, body = tree.path_of(node.child_by_field_name("name")), node.child_by_field_name("body")
        if body is None:
            if name and not self.declared.sees(name[-1], scope.place):
                self.children(node, scope)
            return
        inner = scope._replace(place=(*scope.place, *name), in_class=True)
        if scope.names and name:
            scope.names[-1][name[-1]] = name[-1]
            self.declared.classes.add(name[-1])
        if scope.names:
            local = Declared()
            tree.Collector(local).type_definition(node, ())
            self.declared.members |= local.members
            self.declared.fields |= local.fields
            members = {word: "" for names in local.names.values() for word in names}
            inner = inner._replace(names=(*scope.names, members))
        for child in node.children:
            if child.type in ("base_class_clause", "attribute_specifier"):
                self.visit(child, scope)
        for child in body.named_children:
            if child.type == "enumerator":
                value = child.child_by_field_name("value")
                if scope.names:
                    scope.names[-1][text_of(child.child_by_field_name("name"))] = "int"
                if value is not None:
                    self.visit(value, inner)
            else:
                self.visit(child, inner._replace(loading=False))

    def _enumerator_list(self, node: tree_sitter.Node, scope: Scope) -> None:
        return

    def _template_declaration(self, node: tree_sitter.Node, scope: Scope) -> None:
        names: dict[str, str] = {}
        inner = scope._replace(names=(*scope.names, names))
        parameters = node.child_by_field_name("parameters")
        for child in parameters.named_children if parameters is not None else ():
            self.template_parameter(child, names, inner)
        for child in node.children:
            if child != parameters:
                self.visit(child, inner)

    def template_parameter(self, node: tree_sitter.Node, names: dict[str, str], scope: Scope) -> None:
        if node.type == "template_template_parameter_declaration":
            for child in node.named_children:
                self.template_parameter(child, names, scope)
            return
        kind = node.child_by_field_name("type")
        name = node.child_by_field_name("declarator") or node.child_by_field_name("name")
        default = node.child_by_field_name("default_value") or node.child_by_field_name("default_type")
        if "type_parameter" in node.type and node.type != "parameter_declaration":
            name = name or next(
                (child for child in node.named_children if child.type == "type_identifier"), None
            )
            names[text_of(tree.declared_name(name))] = "typename"
        elif name is not None:
            names[text_of(tree.declared_name(name))] = "value"
        elif kind is not None and node.type == "variadic_parameter_declaration":
            names[text_of(tree.declared_name(node))] = "value"
        for part in (kind if "type_parameter" not in node.type else None, default):
            if part is not None:
                self.visit(part, scope)

    def _function_definition(self, node: tree_sitter.Node, scope: Scope) -> None:
        declarator = tree.function_declarator(node.child_by_field_name("declarator"))
        name = tree.path_of(tree.declared_name(declarator))
        body, kind = node.child_by_field_name("body"), node.child_by_field_name("type")
        device = tree.is_device(node)
        names: dict[str, str] = {}
        inside = scope.in_class or len(name) > 1
        inner = Scope(
            (*scope.names, names), scope.place, device, inside, both_sides=tree.is_on_both_sides(node)
        )
        inner = inner._replace(function=name[-1] if name else "")
        if name and kind is None and not scope.in_class and len(name) == 1 and "operator" not in name[0]:
            self.module(node, name[0], declarator, scope)
            return
        if device and not may_call_the_host(text_of(body)):
            return
        inner = inner._replace(place=(*scope.place, *name[:-1]))
        if name and not scope.in_class and not device:
            self.add(Sort.DEFINITION, (*scope.place, *name), node, inner, "C" if is_c(node) else "")
        self.parameters(declarator, names, inner)
        for child in node.children:
            if child not in (body, node.child_by_field_name("declarator")):
                self.visit(child, inner)
        if declarator is not None:
            for child in declarator.named_children:
                if child.type in (
                    "trailing_return_type",
                    "noexcept",
                    "attribute_specifier",
                    "requires_clause",
                ):
                    self.visit(child, inner)
        if body is not None:
            self.children(body, inner)

    _inline_method_definition = _function_definition

    def module(
        self, node: tree_sitter.Node, name: str, declarator: tree_sitter.Node | None, scope: Scope
    ) -> None:
        """Walk a definition by a macro: its parameters are names that the body uses."""
        parameters = tree.parameters_of(declarator)
        names = {text_of(parameter).split()[-1]: "module" for parameter in parameters if text_of(parameter)}
        detail = text_of(parameters[0]) if parameters else ""
        self.add(Sort.MODULE, (name,), node, scope, detail)
        body = node.child_by_field_name("body")
        if body is not None:
            self.children(body, scope._replace(names=(*scope.names, names), loading=True))

    def parameters(self, declarator: tree_sitter.Node | None, names: dict[str, str], scope: Scope) -> None:
        for parameter in tree.parameters_of(declarator):
            kind = parameter.child_by_field_name("type")
            word = tree.declared_name(parameter.child_by_field_name("declarator"))
            if word is None and parameter.type == "variadic_parameter_declaration":
                word = next((leaf for leaf in tree.leaves(parameter) if leaf.type == "identifier"), None)
            names[text_of(word)] = self.type_of(kind, scope)
            default = parameter.child_by_field_name("default_value")
            for part in (kind, default):
                if part is not None:
                    self.visit(part, scope)

    def type_of(self, kind: tree_sitter.Node | None, scope: Scope) -> str:
        """Return a parameter's type as text, or `GENERIC` if the call decides it."""
        words = text_of(kind)
        if "auto" in words.split() or any(names.get(words) == "typename" for names in scope.names):
            return GENERIC
        return words

    def _field_initializer(self, node: tree_sitter.Node, scope: Scope) -> None:
        for number, child in enumerate(node.named_children):
            if number == 0 and child.type != "field_identifier" or number:
                self.visit(child, scope)

    def _declaration(self, node: tree_sitter.Node, scope: Scope) -> None:
        kind, declarators = node.child_by_field_name("type"), node.children_by_field_name("declarator")
        device = scope.device or any(text_of(c) in ("__device__", "__constant__") for c in node.children)
        scope = scope._replace(device=device)
        at_load = scope.loading and not any(text_of(c) in ("constexpr", "constinit") for c in node.children)
        for child in node.children:
            if child in declarators and child.type != "gnu_asm_expression":
                self.declarator(child, kind, scope, at_load)
            else:
                self.visit(child, scope)
        if at_load and kind is not None and not scope.device:
            owners = {text_of(leaf) for leaf in tree.leaves(kind)} & self.declared.working_classes
            prototype = all(tree.function_declarator(child) is not None for child in declarators)
            if owners and not prototype:
                self.add(Sort.LOADING, (min(owners),), node, scope, "constructor")

    def declarator(
        self, node: tree_sitter.Node, kind: tree_sitter.Node | None, scope: Scope, at_load: bool
    ) -> None:
        local, value = scope.names[-1] if scope.names else None, node.child_by_field_name("value")
        function = tree.function_declarator(node)
        name = tree.declared_name(node)
        inner = scope._replace(loading=at_load)
        if function is not None and value is None:
            names: dict[str, str] = {}
            if local is not None and not scope.in_class:
                # `dim3 grid(n);` looks like a function: what look like its parameters are values.
                parameters = tree.parameters_of(function)
                for parameter in parameters:
                    self.children(parameter, inner)
                foreign = node.parent is not None and any(
                    text_of(child) == "extern" for child in node.parent.children
                )
                if parameters and all(map(has_value, parameters)) and not foreign:
                    local[text_of(name)] = text_of(kind)
                self.trailing(function, scope)
            else:
                self.parameters(function, names, scope._replace(names=(*scope.names, names)))
                self.trailing(function, scope)
            return
        if value is not None:
            self.visit(value, inner)
        for child in node.named_children:
            if child != value and child.type in (
                "array_declarator",
                "attribute_specifier",
                "bitfield_clause",
            ):
                self.array(child, scope)
        if node.type == "array_declarator":
            self.array(node, scope)
        if local is None or name is None:
            return
        if name.type == "structured_binding_declarator":
            origin = self.values.kind(value, scope.names) if value is not None else ""
            for child in name.named_children:
                local[text_of(child)] = "Tensor" if "ensor" in origin else ""
            return
        words = text_of(kind)
        if "auto" in words and value is not None:
            words = self.values.kind(value, scope.names)
        local[text_of(name)] = words

    def trailing(self, function: tree_sitter.Node, scope: Scope) -> None:
        for child in function.named_children:
            if child.type in ("gnu_asm_expression", "attribute_specifier"):
                self.visit(child, scope)

    def array(self, node: tree_sitter.Node, scope: Scope) -> None:
        size = node.child_by_field_name("size")
        if size is not None:
            self.visit(size, scope)
        inner = node.child_by_field_name("declarator")
        if inner is not None and inner.type == "array_declarator":
            self.array(inner, scope)

    def _field_declaration(self, node: tree_sitter.Node, scope: Scope) -> None:
        declarators = node.children_by_field_name("declarator")
        words = {text_of(child) for child in node.children}
        at_load = "static" in words and "constexpr" not in words and not scope.names
        for number, child in enumerate(node.children):
            if child in declarators:
                function = tree.function_declarator(child)
                names: dict[str, str] = {}
                self.parameters(function, names, scope._replace(names=(*scope.names, names)))
                if child.type in ("init_declarator", "array_declarator"):
                    self.declarator(child, None, scope, at_load)
            elif node.field_name_for_child(number) == "default_value":
                self.visit(child, scope._replace(loading=at_load))
            else:
                self.visit(child, scope)

    # Scopes within functions

    def _compound_statement(self, node: tree_sitter.Node, scope: Scope) -> None:
        self.children(node, scope._replace(names=(*scope.names, {})))

    _if_statement = _for_statement = _while_statement = _switch_statement = _compound_statement

    def _for_range_loop(self, node: tree_sitter.Node, scope: Scope) -> None:
        names: dict[str, str] = {}
        inner = scope._replace(names=(*scope.names, names))
        right, kind = node.child_by_field_name("right"), node.child_by_field_name("type")
        name = tree.declared_name(node.child_by_field_name("declarator"))
        origin = self.values.kind(right, scope.names) if right is not None else ""
        words = text_of(kind)
        element = ("Tensor" if "ensor" in origin else "") if "auto" in words else words
        if name is not None and name.type == "structured_binding_declarator":
            names.update((text_of(child), element) for child in name.named_children)
        else:
            names[text_of(name)] = element
        for part in (node.child_by_field_name("initializer"), kind, right, node.child_by_field_name("body")):
            if part is not None:
                self.visit(part, inner)

    def _catch_clause(self, node: tree_sitter.Node, scope: Scope) -> None:
        names: dict[str, str] = {}
        inner = scope._replace(names=(*scope.names, names))
        self.parameters(node, names, inner)
        body = node.child_by_field_name("body")
        if body is not None:
            self.visit(body, inner)

    def _lambda_expression(self, node: tree_sitter.Node, scope: Scope) -> None:
        names: dict[str, str] = {}
        device = scope.device or tree.is_device(node)
        both = scope.both_sides or tree.is_on_both_sides(node)
        inner = Scope(
            (*scope.names, names), scope.place, device, scope.in_class, False, both, variable_of(node)
        )
        called_now = call_of(node) is not None
        if called_now and scope.loading and not scope.device:
            self.add(Sort.LOADING, ("a lambda",), node, scope)
        body = node.child_by_field_name("body")
        for child in node.children:
            if child.type == "lambda_capture_specifier":
                self.captures(child, names, scope)
            elif child.type == "template_parameter_list":
                for parameter in child.named_children:
                    self.template_parameter(parameter, names, inner)
        declarator = node.child_by_field_name("declarator")
        self.parameters(declarator, names, inner)
        if declarator is not None:
            for child in declarator.named_children:
                if child.type == "trailing_return_type":
                    self.visit(child, inner)
        if body is not None:
            self.children(body, inner)

    def captures(self, node: tree_sitter.Node, names: dict[str, str], scope: Scope) -> None:
        for child in node.named_children:
            if child.type == "lambda_capture_initializer":
                value = child.child_by_field_name("right")
                names[text_of(child.child_by_field_name("left"))] = (
                    self.values.kind(value, scope.names) if value is not None else ""
                )
                if value is not None:
                    self.visit(value, scope)
            elif child.type == "identifier":
                self.name(child, scope)

    # Expressions

    def _call_expression(self, node: tree_sitter.Node, scope: Scope) -> None:
        function = node.child_by_field_name("function")
        if scope.loading and function is not None and not scope.device:
            self.at_load(function, scope)
        if function is not None and casts_to_function(function, self.declared):
            self.add(Sort.FUNCTION_CAST, (), node, scope)
        generic = self.values.generic_call(node, scope.names)
        if generic and not scope.device:
            self.add(Sort.OPERATOR, (), node, scope, generic)
        if function is not None and not scope.device:
            self.hands_over(node, function, scope)
        self.children(node, scope)

    def hands_over(self, node: tree_sitter.Node, function: tree_sitter.Node, scope: Scope) -> None:
        """Note a call that passes tensors, or parameters of any type, to a function."""
        given = arguments(node)
        name = "" if function.type == "lambda_expression" else (tree.path_of(function) or ("",))[-1]
        kinds = {self.values.kind(argument, scope.names) for argument in given}
        if any(argument.type == "lambda_expression" for argument in given):
            name = ""
        if not kinds.isdisjoint(("Tensor", "Tensors")):
            self.given_tensors.append(Use(Sort.OPERATOR, (), node.start_point[0], detail=name))
        if GENERIC in kinds:
            self.passed_on.add((scope.function, name))

    def at_load(self, function: tree_sitter.Node, scope: Scope) -> None:
        """Note a call outside functions that may do work: of own functions, CUDA, torch or a kernel."""
        path = self.declared.resolved(tree.path_of(function))
        if not path:
            return
        name, local = path[-1], any(path[0] in names for names in scope.names)
        own = self.declared.functions.get(name, ())
        is_class = name in self.declared.classes
        works = bool(own) and not is_class and not all(f.is_constexpr for f in own)
        works |= (
            not own
            and not is_class
            and not local
            and len(path) == 1
            and self.declared.sees(name, scope.place)
        )
        works |= name in self.declared.working_classes
        works |= name.startswith("cuda") and name[4:5].isupper()
        works |= path[0] in ("at", "torch") and name in FACTORIES
        works |= function.parent is not None and any(
            child.type == "kernel_call_syntax" for child in function.parent.children
        )
        if works:
            self.add(Sort.LOADING, path, function, scope)

    def _new_expression(self, node: tree_sitter.Node, scope: Scope) -> None:
        path = tree.path_of(node.child_by_field_name("type"))
        if scope.loading and path and path[-1] in self.declared.working_classes:
            self.add(Sort.LOADING, path, node, scope)
        self.children(node, scope)

    def _cast_expression(self, node: tree_sitter.Node, scope: Scope) -> None:
        if names_function_type(node.child_by_field_name("type"), self.declared):
            self.add(Sort.FUNCTION_CAST, (), node, scope)
        self.children(node, scope)

    def _binary_expression(self, node: tree_sitter.Node, scope: Scope) -> None:
        if not scope.device:
            # The grammar takes `operator*(a, b)` for a product of `operator` and a list.
            sides = [node.child_by_field_name("left"), node.child_by_field_name("right")]
            self.operator(node, [side for side in sides if side is not None], scope)
        self.children(node, scope)

    def _unary_expression(self, node: tree_sitter.Node, scope: Scope) -> None:
        inner = node.child_by_field_name("argument")
        sign = text_of(node.child_by_field_name("operator"))
        if not scope.device and inner is not None and sign in ("-", "~"):
            self.operator(node, [inner], scope)
        self.children(node, scope)

    def _assignment_expression(self, node: tree_sitter.Node, scope: Scope) -> None:
        left = node.child_by_field_name("left")
        if not scope.device and left is not None and text_of(node.child_by_field_name("operator")) != "=":
            self.operator(node, [left], scope)
        self.children(node, scope)

    def operator(self, node: tree_sitter.Node, operands: Sequence[tree_sitter.Node], scope: Scope) -> None:
        sign = text_of(node.child_by_field_name("operator"))
        if sign in ("&&", "||", ","):
            return
        kinds = {self.values.kind(operand, scope.names) for operand in operands}
        if "Tensor" in kinds:
            self.add(Sort.OPERATOR, (), node, scope, sign)
        elif GENERIC in kinds:
            self.generic.add(scope.function)

    def _operator_name(self, node: tree_sitter.Node, scope: Scope) -> None:
        call = call_of(node)
        if call is not None and not scope.device:
            kinds = {self.values.kind(argument, scope.names) for argument in arguments(call)}
            if "Tensor" in kinds:
                self.add(Sort.OPERATOR, (), node, scope, text_of(node))

    def _gnu_asm_expression(self, node: tree_sitter.Node, scope: Scope) -> None:
        self.add(Sort.ASSEMBLY, (), node, scope)
        self.children(node, scope)
