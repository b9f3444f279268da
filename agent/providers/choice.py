"""Which provider a run asks: the one named, else an endpoint that is configured, else the catalogue."""

from collections.abc import Callable

from pydantic import SecretStr

from agent import store
from agent.config import Settings
from agent.errors import UsageError
from agent.protocols import Provider
from agent.providers.endpoint import EndpointSettings, StreamProgress
from agent.records import Completed, Problem, RetryScheduled

DUMMY_KEY = "none"
"""Sent where a base URL is given without a key: local servers want some word, and none of ours."""


def choose(
    settings: Settings, problem: Problem, *, in_order: bool, arch: str | None,
    on_retry: Callable[[RetryScheduled], None], on_progress: Callable[[StreamProgress], None],
) -> Provider:  # fmt: skip
    """The provider of a run; contacts nobody. `arch`: of the GPU for candidates, None on the emulator.

    Raises UsageError for an endpoint without a model or a run that is not there, EnvironmentFault where no
    endpoint is configured and the catalogue has no match.
    """
    wanted = settings.provider or ("openai_compat" if has_endpoint(settings) else "catalogue")
    if wanted.startswith("replay:"):
        from agent.providers.replay import Replay

        run = store.open_run(wanted.removeprefix("replay:"), settings.runs_dir)
        events = run.read().events
        answers = [(e.prompt_id, e.completion) for e in events if isinstance(e, Completed)]
        return Replay(answers, in_order=in_order, source=run.address)
    if in_order:
        raise UsageError("--in-order needs --provider replay:RUN")
    if wanted == "catalogue":
        from agent.providers.catalogue import Catalogue

        return Catalogue(problem, arch)
    from agent.providers.openai_compat import OpenAICompat

    if not settings.model:
        raise UsageError("no model is set; pass --model (`agent doctor` lists the endpoint's models)")
    return OpenAICompat(endpoint_settings(settings), on_retry=on_retry, on_progress=on_progress)


def has_endpoint(settings: Settings) -> bool:
    """Whether a key or a base URL is configured."""
    return settings.api_key is not None or settings.base_url is not None


def endpoint_settings(settings: Settings) -> EndpointSettings:
    """What the endpoint is asked with. Raises UsageError when neither key nor base URL is set."""
    if not has_endpoint(settings):
        raise UsageError(
            "no endpoint is configured; set OPENAI_API_KEY, or pass --base-url for a local server"
        )
    return EndpointSettings(
        base_url=settings.base_url,
        api_key=settings.api_key or SecretStr(DUMMY_KEY),
        model=settings.model or "",
        timeout_s=settings.request_timeout,
        temperature=settings.temperature,
        max_output_tokens=settings.max_output_tokens,
        reasoning_effort=settings.reasoning_effort,
        seed=settings.seed,
        stop=settings.stop,
        api=settings.api,
        extra_body=settings.extra_body,
        retry_for_s=settings.retry_for,
    )
