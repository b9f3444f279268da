"""Choice of a run's provider: the one named, else a configured endpoint, else the composer."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pydantic import SecretStr

from agent import store
from agent.config import Settings
from agent.errors import UsageError
from agent.protocols import Provider
from agent.providers.endpoint import EndpointSettings, StreamProgress
from agent.providers.several import Several
from agent.records import Completed, Event, Problem, RetryScheduled

DUMMY_KEY = "none"
"""API key that is sent with a base URL without a key. Local servers require a value and ignore it."""


@dataclass(frozen=True)
class Told:
    """Callbacks for a provider's messages other than answers."""

    on_retry: Callable[[RetryScheduled], None]
    on_progress: Callable[[StreamProgress], None]
    say: Callable[[str], None]
    """Callback for one line to the user."""


def choose(
    settings: Settings, problem: Problem, *, in_order: bool, wait: bool, arch: str | None, told: Told
) -> Provider:
    """Return the provider of a run without contacting it.

    `arch` is the architecture of the GPU that candidates run on, or None on the emulator. Raises UsageError
    for an endpoint without a model and for a run, program or folder that does not exist. Raises
    EnvironmentFault if no endpoint is configured and no kernel can be composed.
    """
    wanted = settings.provider or ("openai_compat" if has_endpoint(settings) else "compose")
    kind, _, argument = wanted.partition(":")
    if in_order and kind != "replay":
        raise UsageError("--in-order needs --provider replay:RUN")
    if not wait and kind != "mailbox":
        raise UsageError("--no-wait needs --provider mailbox:DIR")
    if kind == "replay":
        return _replay(argument, settings, in_order=in_order)
    if kind == "command":
        from agent.providers.command import Command
        from agent.providers.retry import Waits

        waits = Waits(retry_for_s=settings.retry_for)
        return Command(argument, timeout_s=settings.request_timeout, waits=waits, on_retry=told.on_retry)
    if kind == "mailbox":
        from agent.providers.mailbox import Mailbox

        return Mailbox(argument, wait=wait, say=told.say)
    if kind == "file":
        from agent.providers.given import Given

        return Given(argument)
    if kind == "compose":
        from agent.providers.composed import without_endpoint

        return without_endpoint(problem, arch, own_products=settings.library_ops == "none")
    if kind == "catalogue":
        from agent.providers.catalogue import Catalogue

        return Catalogue(problem, arch)
    from agent.providers.openai_compat import OpenAICompat

    if asked_models(settings) == ("",):
        raise UsageError("no model is set; pass --model (`agent doctor` lists the endpoint's models)")
    names = asked_models(settings)
    each = {name: endpoint_settings(settings).model_copy(update={"model": name}) for name in names}
    asked = {
        name: OpenAICompat(one, on_retry=told.on_retry, on_progress=told.on_progress)
        for name, one in each.items()
    }
    return Several(asked) if len(asked) > 1 else next(iter(asked.values()))


def asked_models(settings: Settings) -> tuple[str, ...]:
    """Return the distinct names in `--model A,B`, or one empty name if none is set."""
    return tuple(dict.fromkeys(filter(None, map(str.strip, (settings.model or "").split(","))))) or ("",)


def _replay(address: str, settings: Settings, *, in_order: bool) -> Provider:
    from agent.providers.replay import Replay

    run = store.open_run(address, settings.runs_dir)
    answers = [(e.prompt_id, e.completion) for e in run.read().events if isinstance(e, Completed)]
    return Replay(answers, in_order=in_order, source=run.address)


def for_run(provider: Provider, run: str, events: Iterable[Event]) -> Provider:
    """Return the provider prepared for one run. `events` are those already on disk."""
    from agent.providers.mailbox import Mailbox
    from agent.providers.tuning import Tuning

    if isinstance(provider, (Several, Tuning)):
        for event in events:
            provider.hear(event)
    if isinstance(provider, Mailbox):
        received = (event.completion.request_id for event in events if isinstance(event, Completed))
        return provider.for_run(run, filter(None, received))
    return provider


def has_endpoint(settings: Settings) -> bool:
    """Return True if a key or a base URL is configured."""
    return settings.api_key is not None or settings.base_url is not None


def endpoint_settings(settings: Settings) -> EndpointSettings:
    """Return the settings for endpoint requests. Raises UsageError if neither key nor base URL is set."""
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
        stream=settings.stream,
        extra_body=settings.extra_body,
        retry_for_s=settings.retry_for,
    )
