"""Environment with one agent, which answers once in the process of the rollout."""

import verifiers.v1 as vf


class KernelEnvironmentConfig(vf.EnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    """Configuration of the policy. It needs no container, because only the judge service runs its answers."""


class KernelEnvironment(vf.Env[KernelEnvironmentConfig]):
    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        await agents.agent.run(task)
