"""The model is asked once and runs nothing: no box is needed beside the process of the rollout."""

import httpx2
import verifiers.v1 as vf


class OneAnswer(vf.Harness[vf.HarnessConfig]):
    """One request, whose answer is the answer."""

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
        # A model takes as long as it takes: the rollout's own limit ends it.
        async with httpx2.AsyncClient(timeout=None, trust_env=False) as client:
            answer = await client.post(
                f"{endpoint}/chat/completions",
                headers={"authorization": f"Bearer {secret}"},
                json={"model": ctx.model, "messages": messages},
            )
        return vf.ProgramResult(exit_code=int(not answer.is_success), stdout="", stderr=answer.text[:2000])
