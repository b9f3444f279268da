"""Expand the candidate's own macros, so that the parser sees the calls that a compiler sees.

Directives are blanked and no header is read. Conditionals are not evaluated, because a header may define
what they test: all branches stay in the text, and a macro with several definitions is expanded with each. A
macro that hides a risky name under a condition is also tried as undefined.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from typing import NamedTuple

MAX_TOKENS = 50_000
"""Maximum number of tokens that the macros of one source may expand to, in all variants."""
MAX_VARIANTS = 16
"""Maximum number of combinations of definitions that are tried."""
_TOKEN = re.compile(
    r"""
    [A-Za-z_]\w* | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+' | \.?\d(?:[eEpP][+-]|['\w.])*
    | \#\# | %:%: | :: | -> | <<<? | >>>? | [^\S\n]+ | \n | .
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[^\S\n]*(?:#|%:)[^\S\n]*(\w*)([^\n]*)", re.MULTILINE)
_DEFINITION = re.compile(r"\s*(\w+)(\(([^)]*)\))?(.*)", re.DOTALL)


class TooLargeError(Exception):
    """Raised if macros expand to more than `MAX_TOKENS`."""


class Macro(NamedTuple):
    """One definition; `parameters` is None for a macro without a list of them."""

    parameters: tuple[str, ...] | None
    body: tuple[str, ...]
    exists: bool = True
    """False if the name stays as it is, because its definition may not be in force."""

    @property
    def pastes(self) -> bool:
        return not {"##", "%:%:"}.isdisjoint(self.body)


class Directive(NamedTuple):
    """One line for the preprocessor and its position in the text."""

    position: int
    name: str
    rest: str


class Expanded(NamedTuple):
    """The text in each combination of definitions. Lines keep their numbers."""

    variants: tuple[str, ...]
    directives: tuple[Directive, ...]
    defined: frozenset[str]
    complete: bool
    """False if pasted names depend on more combinations than were tried."""


class _Budget:
    """Number of tokens that macros may still make."""

    def __init__(self, tokens: int) -> None:
        self.left = tokens

    def take(self, tokens: int) -> None:
        self.left -= tokens
        if self.left < 0:
            raise TooLargeError


class _Token(NamedTuple):
    text: str
    hidden: frozenset[str] = frozenset()


def expand(text: str, is_risky: Callable[[str], bool]) -> Expanded:
    """Expand a text without comments and with spliced lines. Raises `TooLargeError`."""
    directives = tuple(Directive(m.start(), m[1], m[2]) for m in _DIRECTIVE.finditer(text))
    timeline = _timeline(directives, is_risky)
    blank = _DIRECTIVE.sub(lambda match: " " * len(match[0]), text)
    if not timeline:
        return Expanded((blank,), directives, frozenset(), True)
    counts: dict[str, int] = {}
    for _, macros in timeline:
        for name, definitions in macros.items():
            counts[name] = max(counts.get(name, 1), len(definitions))
    several = [name for name, count in counts.items() if count > 1]
    combinations = product(*(range(counts[name]) for name in several))
    chosen = list(islice(combinations, MAX_VARIANTS + 1))
    complete = len(chosen) <= MAX_VARIANTS
    if not complete:
        most = max(counts.values())
        chosen = [tuple(min(number, counts[name] - 1) for name in several) for number in range(most)]
        complete = not any(m.pastes for _, table in timeline for ms in table.values() for m in ms)
    budget = _Budget(MAX_TOKENS)
    variants = dict.fromkeys(
        "".join(_pieces(blank, timeline, dict(zip(several, choice, strict=True)), budget))
        for choice in chosen
    )
    return Expanded(tuple(variants), directives, frozenset(counts), complete)


def _timeline(
    directives: Sequence[Directive], is_risky: Callable[[str], bool]
) -> list[tuple[int, dict[str, tuple[Macro, ...]]]]:
    """Return the definitions in force from each position on; a conditional one never replaces another."""
    current: dict[str, tuple[Macro, ...]] = {}
    timeline: list[tuple[int, dict[str, tuple[Macro, ...]]]] = []
    depth = 0
    for position, name, rest in directives:
        depth += name in {"if", "ifdef", "ifndef"}
        depth -= name == "endif" and depth > 0
        if name == "define" and (parts := _DEFINITION.fullmatch(rest)):
            parameters = (
                None if parts[2] is None else tuple(p.strip() for p in parts[3].split(",") if p.strip())
            )
            macro = Macro(parameters, tuple(_TOKEN.findall(parts[4].strip())))
            absent = (Macro(None, (), exists=False),) if is_risky(parts[1]) else ()
            earlier = current.get(parts[1], absent) if depth else ()
            if macro not in earlier:
                current = current | {parts[1]: (*earlier, macro)}
                timeline.append((position, current))
        elif name == "undef" and not depth and rest.strip() in current:
            current = {key: value for key, value in current.items() if key != rest.strip()}
            timeline.append((position, current))
    return timeline


def _pieces(
    text: str,
    timeline: Sequence[tuple[int, dict[str, tuple[Macro, ...]]]],
    choice: dict[str, int],
    budget: _Budget,
) -> Iterator[str]:
    yield text[: timeline[0][0]]
    carried: list[_Token] = []
    for number, (begin, table) in enumerate(timeline):
        last = number + 1 == len(timeline)
        end = len(text) if last else timeline[number + 1][0]
        chosen = {name: found[min(choice.get(name, 0), len(found) - 1)] for name, found in table.items()}
        macros = {name: macro for name, macro in chosen.items() if macro.exists}
        tokens = [*carried, *(_Token(word) for word in _TOKEN.findall(text[begin:end]))]
        done, carried = _Expansion(macros, budget).run(tokens, last)
        yield "".join(token.text for token in done)


class _Expansion:
    """Expansion by the algorithm of Prosser: every token carries the macros that it came from."""

    def __init__(self, macros: dict[str, Macro], budget: _Budget) -> None:
        self.macros = macros
        self.budget = budget

    def run(self, tokens: Sequence[_Token], last: bool = True) -> tuple[list[_Token], list[_Token]]:
        """Return (expanded tokens, the beginning of a call whose end is behind the next directive)."""
        pending, done = list(reversed(tokens)), list[_Token]()
        while pending:
            token = pending.pop()
            macro = None if token.text in token.hidden else self.macros.get(token.text)
            if macro is None:
                done.append(token)
                continue
            if macro.parameters is None:
                pending += reversed(self._made(macro, token, [], token.hidden | {token.text}))
                continue
            call = self._arguments(pending)
            if call is None:
                done.append(token)
                continue
            arguments, used, closed = call
            if not closed and not last:
                return done, [token, *reversed(pending)]
            lines = sum(item.text == "\n" for item in pending[len(pending) - used :])
            hidden = token.hidden | {token.text}
            del pending[len(pending) - used :]
            pending += [_Token("\n")] * lines
            pending += reversed(self._made(macro, token, arguments, hidden))
        return done, []

    def _arguments(self, pending: list[_Token]) -> tuple[list[list[_Token]], int, bool] | None:
        """Return (arguments, tokens read, whether the call is closed); None if this is no call."""
        at = len(pending) - 1
        while at >= 0 and pending[at].text.isspace():
            at -= 1
        if at < 0 or pending[at].text != "(":
            return None
        arguments: list[list[_Token]] = [[]]
        depth = 0
        while at >= 0:
            token = pending[at]
            depth += token.text == "("
            depth -= token.text == ")"
            if depth == 0:
                return arguments, len(pending) - at, True
            if token.text == "," and depth == 1:
                arguments.append([])
            elif not (token.text == "(" and depth == 1 and not arguments[0] and len(arguments) == 1):
                arguments[-1].append(_Token(" ") if token.text == "\n" else token)
            else:
                arguments[0].append(_Token(" "))
            at -= 1
        return arguments, len(pending), False

    def _made(
        self, macro: Macro, token: _Token, arguments: list[list[_Token]], hidden: frozenset[str]
    ) -> list[_Token]:
        """Return the body with its parameters replaced and its names pasted."""
        named = _named(macro.parameters or (), arguments)
        made: list[_Token] = []
        body = [part for part in macro.body if part != "\n"]
        at = 0
        while at < len(body):
            part = body[at]
            following = next((word for word in body[at + 1 :] if not word.isspace()), "")
            if part in ("##", "%:%:") and made:
                at += 1
                while at < len(body) and body[at].isspace():
                    at += 1
                right = named.get(body[at], [_Token(body[at])]) if at < len(body) else []
                made = _pasted(made, right)
            elif part in ("#", "%:") and following in named:
                at = body.index(following, at + 1)
                made.append(_Token('""'))
            elif part in named:
                raw = named[part]
                made += raw if following in ("##", "%:%:") else self.run(raw)[0]
            else:
                made.append(_Token(part))
            at += 1
        self.budget.take(len(made) + 1)
        return [_Token(item.text, item.hidden | hidden) for item in (_Token(" "), *made, _Token(" "))]


def _named(parameters: Sequence[str], arguments: list[list[_Token]]) -> dict[str, list[_Token]]:
    named = dict(zip(parameters, arguments, strict=False))
    if parameters and parameters[-1].endswith("..."):
        name = parameters[-1].removesuffix("...").strip() or "__VA_ARGS__"
        rest: list[_Token] = []
        for number, argument in enumerate(arguments[len(parameters) - 1 :]):
            rest += [*([_Token(",")] if number else []), *argument]
        named[name] = rest
    return {name: _stripped(tokens) for name, tokens in named.items()}


def _stripped(tokens: list[_Token]) -> list[_Token]:
    kept = [number for number, token in enumerate(tokens) if not token.text.isspace()]
    return tokens[kept[0] : kept[-1] + 1] if kept else []


def _pasted(left: list[_Token], right: list[_Token]) -> list[_Token]:
    while left and left[-1].text.isspace():
        left = left[:-1]
    right = _stripped(right)
    if not left or not right:
        return [*left, *right]
    joined = _TOKEN.findall(left[-1].text + right[0].text)
    return [*left[:-1], *(_Token(word) for word in joined), *right[1:]]
