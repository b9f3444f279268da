"""The tasks: each has one reference, its prompt, and the reward of an answer.

Contract: the reward consists of the parts of the service's score for the last reply. The model can influence
the reward only through that reply. If the service could not judge, the rollout fails and has no reward.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

from .service import Service, ServiceError

PARTS = ("parsed", "built", "verified", "speed")


class KernelData(vf.TaskData):
    """Data of one task: a reference."""

    problem: str
    """Name of a reference at the service, or the name for `reference`."""
    reference: str | None = None
    """Source of a reference that the service does not have."""

    @property
    def asked(self) -> object:
        """Return the problem in the form that the service expects."""
        return self.problem if self.reference is None else {"name": self.problem, "source": self.reference}


class KernelTaskConfig(vf.TaskConfig):
    """Judge service and its checks; set with `--env.taskset.task.*`."""

    service: str = "http://127.0.0.1:8780"
    token_var: str = "AGENT_SERVICE_TOKEN"  # noqa: S105 - the name of a variable
    """Name of the environment variable that holds the service's token. The token itself is never recorded."""
    patience_s: float = 300.0
    """Seconds for which requests to a service that does not answer are repeated; it may be restarting."""
    quick: bool = False
    """Use fewer draws, which catch fewer attacks. Meant for trying things out, not for training."""

    def connected(self) -> Service:
        return Service(self.service, self.token_var, self.patience_s)

    @property
    def checks(self) -> dict[str, Any]:
        return {"quick": True} if self.quick else {}


class KernelTask(vf.Task[KernelData, vf.State, KernelTaskConfig]):
    """Task to write a kernel for one reference."""

    @vf.reward
    async def earned(self, trace: vf.Trace) -> dict[str, float]:
        """Return the parts of the score, whose sum is its total. Raises TaskError if there is no verdict."""
        try:
            score = await self.config.connected().score(self.data.asked, trace.last_reply, self.config.checks)
        except ServiceError as error:
            raise vf.TaskError(str(error)) from error
        if score["total"] is None:
            raise vf.TaskError(score["why"])
        trace.info["score"] = score
        trace.record_metric("cheating", bool(score["cheating"]))
        if score["speedup"] is not None:
            trace.record_metric("speedup", score["speedup"])
        return {part: score["parts"].get(part, 0.0) for part in PARTS}


class KernelTasksetConfig(vf.TasksetConfig):
    """References to use; set with `--env.taskset.*`."""

    problems: list[str] = []
    """Names of references at the service.

    If this and `references` are empty, all references shipped with the service are used.
    """
    references: list[Path] = []
    """Files of further references. A service accepts them only with `--trust-references`."""
    task: KernelTaskConfig = KernelTaskConfig()


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):
    def load(self) -> Iterable[KernelTask]:
        """Yield a task for each reference, with the prompt from the service."""
        service, config = self.config.task.connected(), self.config.task
        rows: list[tuple[str, str | None]] = [(name, None) for name in self.config.problems]
        rows += [(file.stem, file.read_text(encoding="utf-8")) for file in self.config.references]
        for problem, reference in rows or [(name, None) for name in service.problems()]:
            data = KernelData(name=problem, problem=problem, reference=reference)
            messages = service.prompt(data.asked, config.checks)
            texts = {
                role: "\n\n".join(one["content"] for one in messages if one["role"] == role)
                for role in ("system", "user")
            }
            told = {"prompt": texts["user"], "system_prompt": texts["system"] or None}
            yield KernelTask(data.model_copy(update=told), config)
