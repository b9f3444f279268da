"""The settings, checks and options that a run stores and restores when it is resumed."""

import json

from agent import store
from agent.api.checks import Checks
from agent.api.choices import Choices
from agent.config import Settings

Option = str | int | float | bool

_SETTINGS = (
    "gpu", "candidate_timeout", "library_ops", "unchecked", "api", "temperature", "max_output_tokens",
    "reasoning_effort", "seed", "stop", "extra_body", "search", "samples", "width", "plan", "parallel",
    "good_enough", "confirm", "baselines", "max_tokens", "max_cost", "max_time", "max_gpu_time",
)  # fmt: skip
_CHECKS = ("quick", "admit_anyway", "backward", "compile_safe", "any_rank", "confirmed")
"""Fields of Checks that are stored as separate options, for resuming and replaying the run."""
_BEFORE: dict[str, Option] = {"search": "line", "plan": False, "confirm": "best"}
"""Values for runs from versions without these settings."""


def options(settings: Settings, checks: Checks, choices: Choices) -> dict[str, Option]:
    """Return the options of `RunSettings`. Lists and tables are stored as JSON, which the settings parse."""
    given = {name: getattr(settings, name) for name in _SETTINGS}
    return {
        "require": choices.require,
        **{name: bool(getattr(checks, name)) for name in _CHECKS},
        "in_order": choices.in_order,
        **({"label": choices.label} if choices.label else {}),
        "mend": choices.autofix,
        **{
            name: value if isinstance(value, str | int | float) else json.dumps(value)
            for name, value in given.items()
            if value not in (None, (), {})
        },
    }


def settings(asked: store.RunSettings) -> dict[str, object]:
    """Return the original settings of a run by name, with None for those that were not set."""
    given: dict[str, object] = {name: asked.options.get(name, _BEFORE.get(name)) for name in _SETTINGS}
    return given | {
        "provider": asked.provider, "model": asked.model, "executor": asked.executor, "rounds": asked.rounds,
        "patience": asked.patience,
    }  # fmt: skip


def checked(checks: Checks, asked: store.RunSettings) -> Checks:
    """Return the checks with the original checks of the run added."""
    return checks.model_copy(update={name: True for name in _CHECKS if asked.options.get(name) is True})
