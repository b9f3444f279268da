"""The budget and search policy of a run, derived from its settings."""

from collections.abc import Iterable

from agent.config import Settings
from agent.errors import UsageError
from agent.records import Event, PolicyName
from agent.search.budget import Budget, Limits, Price, Tariff

ANSWER_TOKENS = 32_768
"""Maximum tokens per answer where tokens or cost are limited and the settings give no length.

The limit is sent with every request. Without it, no prompt could be checked against the remaining budget.
"""
FREE = ("catalogue", "compose", "file:", "replay:")
"""Name prefixes of the providers that cost nothing."""
ONE_ANSWER = ("catalogue", "compose", "file:")
"""Name prefixes of the providers that have a single answer."""
UNBOUNDED = ("command:", "mailbox:")
"""Name prefixes of the providers whose answer length cannot be limited."""


def bounded(settings: Settings) -> Settings:
    """Return the settings with a maximum answer length where a limit needs one."""
    limited = settings.max_tokens is not None or settings.max_cost is not None
    if not limited or settings.max_output_tokens is not None:
        return settings
    return settings.model_copy(update={"max_output_tokens": ANSWER_TOKENS})


def budget_for(settings: Settings, provider: str, executor: str, before: Iterable[Event] = ()) -> Budget:
    """Return the budget of a run. `before` holds the events of a run that is resumed.

    Raises UsageError for a limit that cannot be enforced: a cost without a price, or GPU time without a GPU.
    """
    limits = Limits(
        tokens=settings.max_tokens, cost_usd=settings.max_cost, seconds=settings.max_time,
        gpu_seconds=settings.max_gpu_time,
    )  # fmt: skip
    if limits.gpu_seconds is not None and executor != "cuda":
        raise UsageError(f"--max-gpu-time limits judging on a GPU, and this run judges on the {executor}")
    free = provider.startswith((*FREE, *UNBOUNDED))
    if provider.startswith(UNBOUNDED) and (limits.tokens or limits.cost_usd):
        raise UsageError(
            "--max-tokens and --max-cost need an endpoint, which is told the longest answer; "
            f"for {provider.partition(':')[0]}:, use --rounds or --max-time"
        )
    models = [name for name in map(str.strip, (settings.model or "").split(",")) if name]
    prices = {} if free else {name: found for name in models or [""] if (found := _price(settings, name))}
    unpriced = [name for name in models if name not in prices]
    if limits.cost_usd is not None and not free and (unpriced or not prices):
        name = unpriced[0] if unpriced else "*"
        raise UsageError(
            f"--max-cost needs the price of {name}: set it in agent.toml as "
            f'prices = {{"{name}" = {{input = 1.25, output = 10}}}}, in dollars a million tokens'
        )
    tariff = Tariff(answer_tokens=0 if free else settings.max_output_tokens or 0, prices=prices)
    on_gpu = executor == "cuda"
    return Budget(
        limits, parallel=settings.parallel, tariff=tariff, on_gpu=on_gpu, confirms=settings.confirm != "none",
        before=before,
    )  # fmt: skip


def _price(settings: Settings, model: str) -> Price | None:
    found = settings.prices.get(model) or settings.prices.get("*")
    if found is None:
        return None
    if set(found) != {"input", "output"}:
        raise UsageError("a price needs both input and output, in dollars for a million tokens")
    return Price(input=found["input"], output=found["output"])


def with_policy(settings: Settings, provider: str, executor: str) -> Settings:
    """Return the settings with the search policy and `plan` filled in where they are not set."""
    settings = settings.model_copy(update={"search": policy_for(settings, provider, executor)})
    return settings.model_copy(update={"plan": plans_first(settings, provider)})


def policy_for(settings: Settings, provider: str, executor: str) -> PolicyName:
    """Return the policy that is set, else `beam` for a model on a GPU and `line` otherwise.

    `docs/search.md` compares the policies. Without timing, the first verified kernel ends the run. Stored
    answers form a single line.
    """
    if settings.search is not None:
        return settings.search
    return "beam" if executor == "cuda" and not provider.startswith(FREE) else "line"


def plans_first(settings: Settings, provider: str) -> bool:
    """Return True if the model is asked for approaches first. The default is True only for `evolve`."""
    if provider.startswith(ONE_ANSWER):
        return False
    by_itself = settings.search == "evolve" and not provider.startswith(FREE)
    return by_itself if settings.plan is None else settings.plan
