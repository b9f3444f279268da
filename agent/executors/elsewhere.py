"""Executor that leaves judging to another machine: a run begins here and is resumed on one with a GPU."""

from pathlib import Path

from agent.errors import AwaitingGpu
from agent.executors.local import JudgeOptions, LocalExecutor
from agent.records import Admission, Candidate, Evaluation, Problem


class Elsewhere:
    """Executor of a run for a GPU that this machine does not have.

    Problems are admitted on this machine, which needs no GPU. Candidates are not judged, and no verdict is
    recorded, so that the resumed run judges them.
    """

    name = "cuda"

    def __init__(self, *, cache_dir: Path, options: JudgeOptions) -> None:
        self._admits = LocalExecutor("emulator", cache_dir=cache_dir, options=options)

    def admit(self, problem: Problem, anyway: bool = False) -> Admission:
        """Admit the problem. Raises ProblemError if it would let wrong answers pass, unless `anyway`."""
        return self._admits.admit(problem, anyway)

    def is_admission_known(self, problem: Problem) -> bool:
        """Return True if `admit` answers at once because the problem was probed before."""
        return self._admits.is_admission_known(problem)

    def prepare(self, problem: Problem) -> None:
        """Do nothing, as the machine with the GPU makes the preparations."""

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        """Raise AwaitingGpu, as candidates are judged on the machine with a GPU."""
        raise AwaitingGpu("an answer is here and waits to be judged on a machine with an NVIDIA GPU")

    def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        """Raise AwaitingGpu, as candidates are confirmed on the machine with a GPU."""
        raise AwaitingGpu("the best kernel waits to be confirmed on a machine with an NVIDIA GPU")
