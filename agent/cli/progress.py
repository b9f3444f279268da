"""Progress bar that `console.live` draws on a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from agent.cli import console


@contextmanager
def bar(on: Console, text: str) -> Iterator["Bar"]:
    """Show a spinner and a bar while the work goes on; remove them at its end."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
    )
    # Without the two redirect flags, rich would redirect stdout to the console of the bar.
    with Progress(
        *columns, console=on, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as progress:
        yield Bar(progress, progress.add_task(console.line(text), total=None))


class Bar:
    """Spinner with a progress bar: the `console.Live` of a terminal."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        self._progress.update(self._task, description=console.line(text), completed=done, total=total)
