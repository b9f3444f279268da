"""Harness that sends one request and executes nothing, so the rollout needs no container."""

import httpx2
import verifiers.v1 as vf


class OneAnswer(vf.Harness[vf.HarnessConfig]):
    """Harness whose single response is the answer to the task."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        system, prompt = self.resolve_text_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt or ""})
        # No timeout here: the rollout's own limit ends a slow answer.
        async with httpx2.AsyncClient(timeout=None, trust_env=False) as client:
            answer = await client.post(
                f"{endpoint}/chat/completions",
                headers={"authorization": f"Bearer {secret}"},
                json={"model": ctx.model, "messages": messages},
            )
        return vf.ProgramResult(exit_code=int(not answer.is_success), stdout="", stderr=answer.text[:2000])
