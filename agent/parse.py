"""Extraction of the candidate from an answer.

Contract: the last Python block that defines `ModelNew` is taken unchanged, and the candidate's note says
which block that is and why. Reasoning in `<think>` parts is never searched. An older draft never replaces a
newer one that is broken. This module does not fix, judge or run the code.
"""

import re
from collections.abc import Iterator
from textwrap import dedent
from typing import NamedTuple

from agent.errors import ReplyError
from agent.python_source import syntax_tree
from agent.records import Candidate, Completion
from agent.screen import defines_target

_CUT_OFF = frozenset({"length", "max_tokens"})
_PYTHON = frozenset({"", "python", "py", "python3", "ipython"})
_THOUGHT = r"(?:think|thinking|thought|reasoning)"
_THINKING = re.compile(rf"^[ \t]*<{_THOUGHT}>", re.IGNORECASE)
_THOUGHT_ENDS = re.compile(rf"</{_THOUGHT}>", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>.*?)[ \t]*$")
_TARGET = re.compile(r"^[ \t]*class[ \t]+ModelNew\b", re.MULTILINE)
_STARTS = re.compile(r"(?:import[ \t]+[\w.]+|from[ \t]+[\w.]+[ \t]+import\b)")
_TRIPLE = re.compile(
    r"#[^\n]*|(?P<quotes>\"\"\"|''')|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?|\\.", re.DOTALL
)


class Block(NamedTuple):
    """One piece of code in an answer. `line` is its first line, counted from 1."""

    code: str
    language: str
    line: int
    fenced: bool = True

    @property
    def is_python(self) -> bool:
        return self.language in _PYTHON

    @property
    def defines_target(self) -> bool:
        """Return True if the block defines `ModelNew`.

        If the block does not parse, the text of a block labelled as Python decides.
        """
        try:
            return defines_target(syntax_tree(self.code))
        except SyntaxError:
            return self.is_python and _TARGET.search(self.code) is not None


def candidate(problem_name: str, completion: Completion, parent: str | None) -> Candidate:
    """Return the candidate in `completion`.

    `parent` is the candidate id of the attempt that the prompt showed.
    Raises ReplyError of kind `cut-off`, `no-code`, `no-model-new` or `syntax-error`.
    """
    if completion.finish_reason in _CUT_OFF:
        raise ReplyError("cut-off", _cut_off(completion.usage.output_tokens))
    answer, thought = _without_thinking(
        completion.text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    )
    blocks = list(_blocks(answer))
    unfenced = None if any(block.defines_target for block in blocks) else _unfenced(answer, blocks)
    if unfenced is not None:
        blocks = [unfenced]
    defining = [index for index, block in enumerate(blocks) if block.defines_target]
    if not defining:
        raise _nothing_usable(blocks, thought)
    chosen = blocks[defining[-1]]
    note = _note(blocks, defining)
    try:
        syntax_tree(chosen.code)
    except SyntaxError as error:
        raise ReplyError("syntax-error", _syntax_error(error, chosen, note)) from error
    return Candidate(problem=problem_name, source=chosen.code, origin="model", parent=parent, note=note)


def _note(blocks: list[Block], defining: list[int]) -> str:
    chosen = defining[-1]
    if not blocks[chosen].fenced:
        return f"code without fences, from line {blocks[chosen].line} of the answer"
    which = f"block {chosen + 1} of {len(blocks)}"
    if len(defining) > 1:
        return f"{which}: the last of {len(defining)} that define ModelNew"
    return f"{which}: the only one that defines ModelNew"


def _cut_off(tokens: int | None) -> str:
    length = "at the limit of its length" if tokens is None else f"after {tokens} output tokens"
    return (
        f"The answer was cut off {length}, so nothing of it was judged. "
        "Think less, leave out drafts, and give the complete file once."
    )


def _nothing_usable(blocks: list[Block], thought: bool) -> ReplyError:
    ask = "Answer with one ```python block that holds the complete file."
    if blocks:
        held = "one code block" if len(blocks) == 1 else f"{len(blocks)} code blocks"
        return ReplyError(
            "no-model-new", f"The answer holds {held}, and none defines the class ModelNew. {ask}"
        )
    aside = " What stands in <think> parts is not read." if thought else ""
    return ReplyError("no-code", f"The answer holds no code block.{aside} {ask}")


def _syntax_error(error: SyntaxError, chosen: Block, note: str) -> str:
    lines = chosen.code.split("\n")
    text = lines[error.lineno - 1] if error.lineno and error.lineno <= len(lines) else ""
    place = f" at line {error.lineno}: `{text.strip()[:200]}`" if text else ""
    return (
        f"The code that was taken ({note}) is not valid Python: {error.msg}{place}. Mend it, all else kept."
    )


def _without_thinking(text: str) -> tuple[str, bool]:
    """Return the answer without its reasoning, and True if there was any.

    A reasoning part starts at the beginning of a line outside any fence. The part ends at its end tag or, if
    that is missing, at the end of the text. An end tag without a start tag ends reasoning that began before
    the text.
    """
    kept: list[str] = []
    fence, thinking, thought = "", False, False
    for line in text.split("\n"):
        rest = line
        if not thinking and not fence and _THINKING.match(rest):
            thinking = thought = True
        end = _THOUGHT_ENDS.search(rest)
        if end and (thinking or _ends_unopened(rest, end, fence)):
            kept = kept if thinking else []
            fence, thinking, thought, rest = "", False, True, rest[end.end() :]
        if not thinking:
            kept.append(rest)
            fence = _fence_after(rest, fence)
    return "\n".join(kept), thought


def _ends_unopened(line: str, end: re.Match[str], fence: str) -> bool:
    return not line[: end.start()].strip() if fence else True


def _fence_after(line: str, fence: str) -> str:
    """Return the characters of the Markdown code fence that is open after a line, or an empty string."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    if not fence:
        return match["fence"]
    closes = not match["info"] and match["fence"].startswith(fence)
    return "" if closes else fence


def _blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a text in order, including those inside a fenced Markdown document."""
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        opening = _opening(lines[number])
        if opening is None:
            number += 1
            continue
        end = _end(lines, number, opening)
        content = lines[number + 1 : end]
        first = next((place for place, line in enumerate(content) if line.strip()), len(content))
        content = content[first:]
        begins = number + first + 2
        language = _language(opening)
        if language in {"markdown", "md"} or (content and _opening(content[0])):
            inner = _blocks("\n".join(content))
            yield from (block._replace(line=block.line + begins - 1) for block in inner)
        elif content:
            yield Block(_flush_left(content), language, begins)
        closed = end < len(lines) and _closes(lines[end], opening)
        number = end + 1 if closed else end


def _flush_left(lines: list[str]) -> str:
    """Return the lines as a file. A block that is indented as a whole, as in a list, is dedented."""
    code = "\n".join(lines).rstrip("\n") + "\n"
    return dedent(code) if lines[0][:1].isspace() else code


def _opening(line: str) -> re.Match[str] | None:
    match = _FENCE.match(line)
    return None if match is None or "`" in match["info"] else match


def _closes(line: str, opening: re.Match[str]) -> bool:
    match = _FENCE.match(line)
    return match is not None and not match["info"] and match["fence"].startswith(opening["fence"])


def _language(opening: re.Match[str]) -> str:
    word = re.match(r"\{?\.?([\w+#-]*)", opening["info"])
    return word[1].lower() if word else ""


def _end(lines: list[str], start: int, opening: re.Match[str]) -> int:
    """Return the index of the line that ends the block opened at `start`: a closing fence or a new opening.

    A fence inside a triple-quoted Python string belongs to the string if the code up to a later fence parses.
    Otherwise the string was never closed, and the first fence ends the block.
    """
    first: int | None = None
    for number in range(start + 1, len(lines)):
        again = _opening(lines[number])
        if again is None or not again["fence"].startswith(opening["fence"]):
            continue
        code = "\n".join(lines[start + 1 : number])
        if _language(opening) not in _PYTHON or not _inside_string(code):
            if first is None or (_closes(lines[number], opening) and _parses(code)):
                return number
            return first
        first = number if first is None else first
    return len(lines) if first is None else first


def _inside_string(code: str) -> bool:
    """Return True if a triple-quoted string is open at the end of a Python text, which may be incomplete."""
    position = 0
    while match := _TRIPLE.search(code, position):
        position = match.end()
        if match["quotes"]:
            closing = re.compile(r"(?:\\.|[^\\])*?" + match["quotes"], re.DOTALL).match(code, position)
            if closing is None:
                return True
            position = closing.end()
    return False


def _parses(code: str) -> bool:
    try:
        syntax_tree(dedent(code))
    except SyntaxError:
        return False
    return True


def _unfenced(answer: str, blocks: list[Block]) -> Block | None:
    """Return code without fences: the text from the imports before the last `class ModelNew`, or None.

    Prose after the code is removed paragraph by paragraph until the rest parses.
    """
    lines = answer.split("\n")
    for block in blocks:
        size = block.code.count("\n")
        lines[block.line - 1 : block.line - 1 + size] = [""] * size
    text = "\n".join(lines)
    targets = [text.count("\n", 0, match.end()) for match in _TARGET.finditer(text)]
    if not targets:
        return None
    earliest = targets[-2] + 1 if len(targets) > 1 else 0
    starts = [n for n in range(earliest, targets[-1]) if _begins_import(lines[n])] or [targets[-1]]
    fence = next((n for n in range(targets[-1], len(lines)) if _FENCE.match(lines[n])), len(lines))
    whole = lines[starts[0] : fence]
    for end in range(len(whole), targets[-1] - starts[0], -1):
        if (end == len(whole) or not whole[end].strip()) and _parses("\n".join(whole[:end])):
            whole = whole[:end]
            break
    return Block("\n".join(whole).strip("\n") + "\n", "", starts[0] + 1, fenced=False)


def _begins_import(line: str) -> bool:
    """Return True for the first line of an import statement, but not for prose that starts with `import`."""
    return _STARTS.match(line) is not None and (line.rstrip().endswith(("(", "\\")) or _parses(line))
