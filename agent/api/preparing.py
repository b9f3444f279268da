"""Preparation of the judge while the model writes its first answer: admission, sizes and headers.

Contract: no candidate is judged before its problem is admitted. A refusal ends the run as soon as it is
known, even while an answer is pending. The prompt that was sent stays in the transcript.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from agent.api.judge import admitted
from agent.api.limits import FREE
from agent.api.listening import Listener, Relay
from agent.errors import EnvironmentFault, Unprepared
from agent.protocols import Executor, Provider
from agent.records import Candidate, Completion, Evaluation, Problem, Prompt

if TYPE_CHECKING:
    from agent.api.service import Remote
    from agent.executors import Elsewhere, LocalExecutor

    Judge = LocalExecutor | Elsewhere | Remote

T = TypeVar("T")


def answers_at_once(provider: str, *, no_wait: bool) -> bool:
    """Return True if there is no time to prepare between a prompt to this provider and its answer.

    With `no_wait`, the run takes the answers already in its mailbox and ends.
    """
    return no_wait or provider.startswith(FREE)


class Behind(Relay):
    """A listener that drops the updates of its background thread unless a caller waits for that thread."""

    def __init__(self, inner: Listener) -> None:
        super().__init__(inner)
        self._thread: threading.Thread | None = None
        self._step = ""
        self._waiting = 0

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        if threading.current_thread() is self._thread:
            self._step = text
            if not self._waiting:
                return
        super().update(text, done, total)

    def start(self, work: Callable[[], None]) -> None:
        """Do the work in a daemon thread and drop its updates."""
        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Show the current and later steps of the thread while the context is open."""
        self._waiting += 1
        if self._step:
            super().update(self._step)
        try:
            yield
        finally:
            self._waiting -= 1


class Preparation:
    """Admission of one problem and other preparation, done at once or during the first prompt."""

    def __init__(self, judge: "Judge", problem: Problem, anyway: bool, told: Behind) -> None:
        self._judge, self._problem, self._anyway, self._told = judge, problem, anyway, told
        self._admitted: Future[None] = Future()

    def now(self) -> None:
        """Admit the problem. Raises ProblemError if it may not be judged."""
        admitted(self._judge, self._problem, self._anyway, self._told)
        self._admitted.set_result(None)

    def begin(self) -> None:
        """Start preparing in the background. Raises ProblemError if the cache holds a refusal."""
        if self._judge.is_admission_known(self._problem):
            self.now()
        self._told.start(self._prepare)

    def wait(self) -> None:
        """Wait until the problem is admitted.

        Raises ProblemError if it may not be judged, and Unprepared if this machine cannot decide that.
        """
        if not self._admitted.done():
            with self._told.waiting():
                wait((self._admitted,))
        self._admitted.result()

    def answer(self, ask: Callable[[], Completion]) -> Completion:
        """Return the answer of `ask`, or raise as `wait` does if the problem is refused before the answer."""
        if self._admitted.done():
            self._admitted.result()
            return ask()
        answer: Future[Completion] = Future()
        # The context carries the round that identifies the asking thread.
        run = copy_context().run
        threading.Thread(target=run, args=(_settle, answer, ask), daemon=True).start()
        ends: tuple[Future[Any], ...] = (answer, self._admitted)
        wait(ends, return_when=FIRST_COMPLETED)
        # An answer that has arrived is kept even if the problem was refused.
        if not answer.done():
            self._admitted.result()
        return answer.result()

    def _prepare(self) -> None:
        if not self._admitted.done():
            _settle(self._admitted, self._admit)
        if self._admitted.exception() is None:
            self._judge.prepare(self._problem)

    def _admit(self) -> None:
        try:
            admitted(self._judge, self._problem, self._anyway, self._told)
        except EnvironmentFault as fault:
            raise Unprepared(str(fault), fault.details) from fault


class PreparedExecutor:
    """An executor that waits for the admission of its problem. Raises as `Preparation.wait` does."""

    def __init__(self, inner: Executor, preparation: Preparation) -> None:
        self._inner, self._preparation = inner, preparation

    @property
    def name(self) -> str:
        return self._inner.name

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        self._preparation.wait()
        return self._inner.evaluate(problem, candidate)

    def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        self._preparation.wait()
        return self._inner.confirm(problem, candidate, evaluation)


class PreparedProvider:
    """A provider whose answer is no longer awaited once the problem is refused."""

    def __init__(self, inner: Provider, preparation: Preparation) -> None:
        self._inner, self._preparation = inner, preparation

    @property
    def name(self) -> str:
        return self._inner.name

    def complete(self, prompt: Prompt) -> Completion:
        return self._preparation.answer(lambda: self._inner.complete(prompt))


def _settle(end: "Future[T]", work: Callable[[], T]) -> None:
    try:
        end.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
        end.set_exception(error)
