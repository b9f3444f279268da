"""Output of all commands: results go to stdout, everything else to stderr.

No printed text is interpreted as markup. `plain` removes control sequences from every text that comes from a
model, a candidate or a file. Commands write to the terminal only through this module.
"""

import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Protocol

import typer
from pydantic_core import to_jsonable_python
from rich.console import Console, RenderableType
from rich.text import Text

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC, DCS and similar: titles, links, clipboard
    r"|\x1b[ -/]*[0-~]"
)
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters except line feed and tab
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # bidirectional controls, which reorder text
)
_LONE = re.compile("[\ud800-\udfff]")
LINE_CHARS = 4000
"""Maximum characters of a printed line. A longer line is no code and would scroll a terminal for minutes."""


@dataclass
class _State:
    verbose: bool = False
    quiet: bool = False
    begun: float = field(default_factory=time.monotonic)
    drawing: Console | None = None
    """Console that draws the progress bar.

    Lines printed through another console would collide with the bar.
    """


_state = _State()


def reset() -> None:
    """Reset the state for a new command: neither quiet nor verbose, clock at zero."""
    global _state
    _state = _State()


def is_verbose() -> bool:
    return _state.verbose


def _set_verbose(value: bool) -> bool:
    _state.verbose = _state.verbose or value
    return value


def _set_quiet(value: bool) -> bool:
    _state.quiet = _state.quiet or value
    return value


Verbose = Annotated[bool, typer.Option("--verbose", "-v", callback=_set_verbose, help="Print more details.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", callback=_set_quiet, help="Print only results, warnings and errors.")
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document to stdout and everything else to stderr.")
]
RunsDir = Annotated[
    Path | None,
    typer.Option("--runs-dir", help="Folder that contains the runs.", show_default="./runs", file_okay=False),
]


def plain(text: str) -> str:
    """Return the text without terminal control sequences.

    Line feeds and tabs stay. A lone surrogate becomes U+FFFD.
    """
    if text.isascii() and text.isprintable():
        return text
    return _LONE.sub("\ufffd", _INVISIBLE.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n"))))


def line(text: str) -> str:
    """Return the `plain` text on one line of at most LINE_CHARS characters."""
    return short(text, LINE_CHARS)


def short(text: str, characters: int) -> str:
    """Return the `plain` text on one line, cut to `characters`. An ellipsis marks a cut."""
    # Clean only a prefix, because the text may have millions of characters.
    whole = " ".join(plain(text[: 4 * characters]).split())
    cut = len(text) > 4 * characters or len(whole) > characters
    return f"{whole[: characters - 1]}\N{HORIZONTAL ELLIPSIS}" if cut else whole


def readable(text: str) -> str:
    """Return the `plain` text. Lines longer than LINE_CHARS are cut and end with a count of the rest."""
    if len(text) <= LINE_CHARS:
        return plain(text)
    return "\n".join(map(_cut, plain(text).split("\n")))


def _cut(row: str) -> str:
    left = len(row) - LINE_CHARS
    return row if left <= 0 else f"{row[:LINE_CHARS]} [{left:,} more characters; --json has them]"


def stdout() -> Console:
    """Return the console for results. Without a terminal it has no colour and 80 columns."""
    return Console(markup=False, highlight=False, emoji=False)


def stderr() -> Console:
    """Return the console for everything but results. Lines appear above an active progress bar."""
    return _state.drawing or Console(stderr=True, markup=False, highlight=False, emoji=False)


def show(*parts: RenderableType) -> None:
    """Print results below each other.

    A Text keeps its lines; any other renderable is laid out to the terminal's width.
    """
    console = stdout()
    for part in parts:
        if isinstance(part, Text):
            # A wrapped line of code would be a different program when copied.
            console.print(part, soft_wrap=True)
        elif console.is_terminal:
            console.print(part)
        else:
            with console.capture() as laid_out:
                console.print(part)
            console.print(Text("\n".join(map(str.rstrip, laid_out.get().splitlines()))), soft_wrap=True)


def show_lines(lines: Iterable[Sequence[tuple[str, str]]]) -> None:
    """Print lines of styled pieces. Without a terminal, rich is bypassed: thousands of lines stay cheap."""
    console = stdout()
    if console.is_terminal:
        text = Text("\n").join(Text.assemble(*pieces) for pieces in lines)
        console.print(text, soft_wrap=True)
    else:
        sys.stdout.writelines("".join(text for text, _ in pieces) + "\n" for pieces in lines)


def emit_json(document: object) -> None:
    """Print the command's single JSON document. Non-finite numbers become strings."""
    value = to_jsonable_python(document, inf_nan_mode="strings", fallback=str)
    sys.stdout.write(json.dumps(_finite(value), indent=2, allow_nan=False) + "\n")


def _finite(value: object) -> object:
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return {key: _finite(item) for key, item in value.items()} if isinstance(value, dict) else value


def say(message: str) -> None:
    """Print a line about progress to stderr, prefixed with the time since the command began."""
    if not _state.quiet:
        _print_status(message)


def detail(message: str) -> None:
    """Print a progress line only with -v."""
    if _state.verbose and not _state.quiet:
        _print_status(message)


def warn(message: str) -> None:
    """Print a warning, even with -q."""
    stderr().print(Text.assemble(("warning: ", "yellow"), line(message)), soft_wrap=True)


def error(message: str) -> None:
    """Print the final line of a failed command."""
    stderr().print(Text.assemble(("error: ", "bold red"), line(message)), soft_wrap=True)


def _print_status(message: str) -> None:
    elapsed = duration(time.monotonic() - _state.begun)
    stderr().print(Text.assemble((f"{elapsed:>6}  ", "dim"), line(message)), soft_wrap=True)


def duration(seconds: float) -> str:
    """Format a duration as `0.4 s`, `12 s`, `3:07` or `1:02:03`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Live(Protocol):
    """Display of work in progress."""

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Show the current step, and its progress if known."""
        ...


@contextmanager
def live(text: str) -> Iterator[Live]:
    """Show a spinner on stderr, and a bar once a total is known, until the work ends.

    Without a terminal, or inside another `live`, each new text is printed as a plain line without counts.
    With -q nothing is shown.
    """
    console = stderr()
    if _state.quiet or _state.drawing or not console.is_terminal:
        lines = _Lines()
        lines.update(text)
        yield lines
        return
    from agent.cli.progress import bar

    _state.drawing = console
    try:
        with bar(console, text) as drawn:
            yield drawn
    finally:
        _state.drawing = None


class _Lines:
    def __init__(self) -> None:
        self._last: str | None = None

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        if text != self._last:
            self._last = text
            say(text)
