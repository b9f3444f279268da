"""Judging left to another machine: the run asks here and goes on where the GPU is."""

from pathlib import Path

from agent.errors import AwaitingGpu
from agent.executors.local import JudgeOptions, LocalExecutor
from agent.records import Admission, Candidate, Evaluation, Problem


class Elsewhere:
    """The executor of a run for a GPU that this machine has not.

    Problems are admitted here, which takes no GPU. Whatever is to be judged waits: nothing is written
    down of it, so that the run judges it when it is resumed.
    """

    name = "cuda"

    def __init__(self, *, cache_dir: Path, options: JudgeOptions) -> None:
        self._admits = LocalExecutor("emulator", cache_dir=cache_dir, options=options)

    def admit(self, problem: Problem, anyway: bool = False) -> Admission:
        """Raises ProblemError for a problem that would let wrong answers pass, unless `anyway`."""
        return self._admits.admit(problem, anyway)

    def is_admission_known(self, problem: Problem) -> bool:
        """See `LocalExecutor.is_admission_known`."""
        return self._admits.is_admission_known(problem)

    def prepare(self, problem: Problem) -> None:
        """Do nothing: what judging takes is needed where the GPU is."""

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        """Raises AwaitingGpu."""
        raise AwaitingGpu("an answer is here and waits to be judged on a machine with an NVIDIA GPU")

    def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """Raises AwaitingGpu."""
        raise AwaitingGpu("the best kernel waits to be confirmed on a machine with an NVIDIA GPU")
