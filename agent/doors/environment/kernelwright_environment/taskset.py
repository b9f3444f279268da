"""The tasks: a reference each, the prompt for it, and what an answer to it earns.

Contract: the reward is what the service says of the last answer, in its parts, and nothing that the model's
side can reach. Where the service could not judge, the rollout has failed and has no reward.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

from .service import Service, ServiceError

PARTS = ("parsed", "built", "verified", "speed")


class KernelData(vf.TaskData):
    """One reference."""

    problem: str
    """A name of the service's, or of `reference`."""
    reference: str | None = None
    """Text that the service does not have."""

    @property
    def asked(self) -> object:
        """As the service is told."""
        return self.problem if self.reference is None else {"name": self.problem, "source": self.reference}


class KernelTaskConfig(vf.TaskConfig):
    """Who judges, and how; under `--env.taskset.task.*`."""

    service: str = "http://127.0.0.1:8780"
    token_var: str = "AGENT_SERVICE_TOKEN"  # noqa: S105 - the name of a variable
    """The environment variable that holds the service's token; the token itself is in no record."""
    patience_s: float = 300.0
    """So long a service that does not answer is asked again: it may be starting anew."""
    quick: bool = False
    """Fewer draws, which see fewer attacks: for trials, not for training."""

    def connected(self) -> Service:
        return Service(self.service, self.token_var, self.patience_s)

    @property
    def checks(self) -> dict[str, Any]:
        return {"quick": True} if self.quick else {}


class KernelTask(vf.Task[KernelData, vf.State, KernelTaskConfig]):
    """A kernel for one reference."""

    @vf.reward
    async def earned(self, trace: vf.Trace) -> dict[str, float]:
        """The parts of the score; their sum is its total."""
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
    """Which references; under `--env.taskset.*`."""

    problems: list[str] = []
    """Names that the service knows; without these and `references`, all that it comes with."""
    references: list[Path] = []
    """Files of references, which a service takes with `--trust-references`."""
    task: KernelTaskConfig = KernelTaskConfig()


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):
    def load(self) -> Iterable[KernelTask]:
        """Asks the service for the prompt of each."""
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
