"""One agent that answers once, in the process of the rollout."""

import verifiers.v1 as vf


class KernelEnvironmentConfig(vf.EnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    """The policy. What it writes is run by the judge service alone, so that it needs no box of its own."""


class KernelEnvironment(vf.Env[KernelEnvironmentConfig]):
    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        await agents.agent.run(task)
