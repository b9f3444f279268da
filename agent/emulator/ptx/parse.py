"""Parser from PTX text to a `syntax.Module`.

The parser reads the output of NVIDIA's compiler, including inline assembly. Macros of handwritten PTX and
textures are not supported.
"""

from collections.abc import Collection

from agent.emulator.ptx.syntax import (
    Block,
    Function,
    Instruction,
    Label,
    Module,
    Operand,
    Place,
    Prototype,
    Targets,
    Untranslated,
    Variable,
)
from agent.emulator.ptx.tokens import Token, tokens

_LINKAGE = (".visible", ".extern", ".weak", ".common")
_SPACES = (".reg", ".local", ".shared", ".param", ".global", ".const")
_FUNCTION_END = ("{", ";")


def module(text: str, sources: Collection[str]) -> Module:
    """Parse PTX text; `sources` as in `tokens`. Raise Untranslated for unsupported text."""
    return _Parser(tokens(text, sources)).module()


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._index = 0
        self._place = Place()

    def module(self) -> Module:
        variables: list[Variable] = []
        functions: list[Function] = []
        while self._peek():
            linkage = ""
            while self._peek() in _LINKAGE:
                linkage = self._take()[1:]
            token = self._peek()
            if token in (".entry", ".func"):
                functions.append(self._function(linkage))
            elif token in _SPACES:
                variables += self._variables(linkage)
            elif token == ".pragma":
                self._skip_to(";")
            else:
                raise self._unknown(token)
        return Module(tuple(variables), tuple(functions))

    def _peek(self) -> str:
        """Return the next token, or "" at the end; record the source positions before it."""
        while self._index < len(self._tokens):
            token = self._tokens[self._index]
            if isinstance(token, str):
                return token
            self._place = token
            self._index += 1
        return ""

    def _take(self, expected: str = "") -> str:
        token = self._peek()
        if token == "" or (expected and token != expected):
            raise self._unknown(token)
        self._index += 1
        return token

    def _accept(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._index += 1
        return True

    def _skip_to(self, *ends: str) -> None:
        """Skip past the next token that is in `ends`."""
        while self._take() not in ends:
            pass

    def _unknown(self, token: str) -> Untranslated:
        return Untranslated(token or "the end of the text", self._place.line)

    def _function(self, linkage: str) -> Function:
        is_entry = self._take() == ".entry"
        returns = self._parameters() if self._peek() == "(" else ()
        name = self._take()
        parameters = self._parameters() if self._peek() == "(" else ()
        while self._peek() not in _FUNCTION_END:
            self._take()  # limits and hints: .maxntid 256, 1, 1
        self._place = Place()
        body = None if self._accept(";") else self._block()
        return Function(name, is_entry, returns, parameters, body, _first_place(body), linkage)

    def _parameters(self) -> tuple[Variable, ...]:
        self._take("(")
        found: list[Variable] = []
        while not self._accept(")"):
            if not self._accept(","):
                found.append(self._parameter())
        return tuple(found)

    def _parameter(self) -> Variable:
        space = self._take()[1:]
        if space not in ("param", "reg"):
            raise self._unknown(f".{space}")
        align, kind = self._attributes()
        return self._declarator(space, align, kind, "")

    def _attributes(self) -> tuple[int, str]:
        """Return the alignment and type of a declaration, and stop at its first name."""
        align, kind = 0, ""
        while self._peek().startswith("."):
            token = self._take()
            if token == ".align":
                align = max(align, int(self._take())) if kind == "" else align
                if kind != "":
                    self._take()  # alignment of the pointee
            elif token == ".attribute":
                self._skip_to(")")
            elif token not in (".ptr", ".global", ".const", ".shared", ".local"):
                kind = kind + token
        if kind == "":
            raise self._unknown(self._peek())
        return align, kind[1:]

    def _variables(self, linkage: str = "") -> list[Variable]:
        space = self._take()[1:]
        align, kind = self._attributes()
        found = [self._declarator(space, align, kind, linkage)]
        while self._accept(","):
            found.append(self._declarator(space, align, kind, linkage))
        self._take(";")
        return found

    def _declarator(self, space: str, align: int, kind: str, linkage: str) -> Variable:
        name = self._take()
        count: int | None = 1
        is_array = is_range = False
        if self._accept("<"):
            count, is_range = int(self._take()), True
            self._take(">")
        while self._accept("["):
            is_array = True
            if self._accept("]"):
                count = None
                continue
            count = (count or 1) * int(self._take(), 0)
            self._take("]")
        initial = self._initialiser() if self._accept("=") else ()
        return Variable(space, kind, name, align, count, is_array, is_range, initial, linkage)

    def _initialiser(self) -> tuple[str, ...]:
        """Return an initialiser's values (numbers, names, `name+offset`), with nested braces flattened."""
        values: list[str] = []
        depth = 0
        while True:
            token = self._take()
            if token in "{}":
                depth += 1 if token == "{" else -1
            elif token == "generic" and self._accept("("):
                values.append(self._value(self._take()))
                self._take(")")
            elif token != ",":
                values.append(self._value(token))
            if depth == 0:
                return tuple(values)

    def _value(self, token: str) -> str:
        if token == "-":
            token += self._take()
        if self._peek() == "(":
            raise self._unknown(f"initialiser {token}(...)")
        if self._accept("+"):
            token += "+" + self._take()
        return token

    def _block(self) -> Block:
        self._take("{")
        block = Block()
        while not self._accept("}"):
            self._statement(block)
        return block

    def _statement(self, block: Block) -> None:
        token = self._peek()
        if token == "{":
            block.statements.append(self._block())
        elif token == ";":
            self._take()
        elif token == ".pragma":
            self._skip_to(";")
        elif token in _SPACES:
            block.statements += self._variables()
        elif token == "@" or self._next_is_not_colon():
            block.statements.append(self._instruction())
        else:
            self._labelled(block)

    def _next_is_not_colon(self) -> bool:
        following = self._index + 1
        return following >= len(self._tokens) or self._tokens[following] != ":"

    def _labelled(self, block: Block) -> None:
        name = self._take()
        self._take(":")
        if self._accept(".branchtargets"):
            labels = [self._take()]
            while self._accept(","):
                labels.append(self._take())
            self._take(";")
            block.statements.append(Targets(name, tuple(labels)))
        elif self._accept(".callprototype"):
            self._skip_to(";")
            block.statements.append(Prototype(name))
        else:
            block.statements.append(Label(name))

    def _instruction(self) -> Instruction:
        guard = None
        if self._accept("@"):
            negated = self._accept("!")
            guard = Operand("name", self._take())
            guard = Operand("not", parts=(guard,)) if negated else guard
        opcode, *modifiers = self._take().split(".")
        place = self._place
        operands: list[Operand] = []
        while not self._accept(";"):
            if not self._accept(","):
                operands.append(self._operand())
        return Instruction(opcode, tuple(modifiers), tuple(operands), guard, place)

    def _operand(self) -> Operand:
        token = self._take()
        closing = {"{": ("vector", "}"), "(": ("list", ")")}.get(token)
        if closing is not None:
            return self._several(*closing)
        if token == "[":
            inner = self._operand()
            base = Operand(inner.kind, inner.text)
            more = (self._operand(),) if self._accept(",") else ()  # coordinates of a tensor map
            self._take("]")
            return Operand("address", offset=inner.offset, parts=(base, *more))
        if token == "!":
            return Operand("not", parts=(self._operand(),))
        if token == "-" or token[0].isdigit():
            return Operand("immediate", token + (self._take() if token == "-" else ""))
        if not (token[0].isalpha() or token[0] in "%$_"):
            raise self._unknown(token)
        offset = self._offset()
        found = Operand("name", token, offset)
        return Operand("pair", parts=(found, self._operand())) if self._accept("|") else found

    def _several(self, kind: str, end: str) -> Operand:
        parts: list[Operand] = []
        while not self._accept(end):
            if not self._accept(","):
                parts.append(self._operand())
        return Operand(kind, parts=tuple(parts))

    def _offset(self) -> int:
        """Return the offset after a name (`+4`, `+-4` or `-4`), or 0."""
        if self._peek() not in "+-" or self._peek() == "":
            return 0
        sign = -1 if self._take() == "-" else 1
        if self._accept("-"):
            sign = -sign
        return sign * int(self._take(), 0)


def _first_place(block: Block | None) -> Place:
    for statement in block.statements if block else ():
        if isinstance(statement, Instruction) and statement.place.line:
            return statement.place
    return Place()
