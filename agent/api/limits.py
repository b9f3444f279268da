"""The budget of a run from its settings: what bounds a question, and what ends the run."""

from collections.abc import Iterable

from agent.config import Settings
from agent.errors import UsageError
from agent.records import Event, PolicyName
from agent.search.budget import Budget, Limits, Price, Tariff

ANSWER_TOKENS = 32_768
"""The longest answer where tokens or money are limited and no length is set: without one, no question could
be known to fit what is left. It is sent with every request."""
FREE = ("catalogue", "compose", "file:", "replay:")
"""What the names of providers begin with that cost nothing."""
ONE_ANSWER = ("catalogue", "compose", "file:")
"""Those that have one answer, so that asking again could not bring another."""
UNBOUNDED = ("command:", "mailbox:")
"""Those that nobody can tell how long an answer may be."""


def bounded(settings: Settings) -> Settings:
    """The settings with a longest answer, where a limit needs one."""
    limited = settings.max_tokens is not None or settings.max_cost is not None
    if not limited or settings.max_output_tokens is not None:
        return settings
    return settings.model_copy(update={"max_output_tokens": ANSWER_TOKENS})


def budget_for(settings: Settings, provider: str, executor: str, before: Iterable[Event] = ()) -> Budget:
    """What a run may use. `before`: the events of one that is gone on with.

    Raises UsageError for a limit that could not be kept: in dollars without a price, on a GPU without one.
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
    """The settings with how the run searches, as far as they leave it open."""
    settings = settings.model_copy(update={"search": policy_for(settings, provider, executor)})
    return settings.model_copy(update={"plan": plans_first(settings, provider)})


def policy_for(settings: Settings, provider: str, executor: str) -> PolicyName:
    """The policy that is set, else the one that wins where it is run (docs/search.md).

    Where nothing is timed a first kernel ends the run, and stored answers are one line of them.
    """
    if settings.search is not None:
        return settings.search
    return "beam" if executor == "cuda" and not provider.startswith(FREE) else "line"


def plans_first(settings: Settings, provider: str) -> bool:
    """Whether approaches are asked for before any kernel: where a policy with a long budget asks a model."""
    if provider.startswith(ONE_ANSWER):
        return False
    by_itself = settings.search == "evolve" and not provider.startswith(FREE)
    return by_itself if settings.plan is None else settings.plan
