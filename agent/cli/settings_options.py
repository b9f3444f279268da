"""Command-line options that only override a setting. Commands pass them to `config.load` as flags.

Contract: this module defines each option's name, command-line type and help. `agent.settings` defines its
meaning, default and validation. A command lists the options it takes and receives those that the user gave as
one dictionary, `given`.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from agent.cli import judging

_OPTIONS: dict[str, Any] = {
    "model": Annotated[str | None, typer.Option(help="Model name at the endpoint; several as A,B.")],
    "base_url": Annotated[str | None, typer.Option(help="URL of the endpoint.")],
    "search": Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="Search policy: line, beam or evolve.",
            show_default="beam on a GPU, else line",
        ),
    ],
    "samples": Annotated[
        int | None,
        typer.Option(help="Number of independent lines that beam and evolve start.", show_default="4"),
    ],
    "width": Annotated[
        int | None,
        typer.Option(help="Number of lines that beam extends, or of evolve's islands.", show_default="2"),
    ],
    "plan": Annotated[
        bool | None,
        typer.Option(
            "--plan/--no-plan",
            help="First ask for a ranked list of approaches; costs a round.",
            show_default="--plan with evolve",
        ),
    ],
    "parallel": Annotated[
        int | None, typer.Option(help="Maximum number of rounds in progress.", show_default="1")
    ],
    "max_tokens": Annotated[int | None, typer.Option(help="Stop before total tokens exceed this.")],
    "max_cost": Annotated[
        float | None,
        typer.Option(help="Stop before the cost in dollars exceeds this; needs the setting `prices`."),
    ],
    "max_time": Annotated[
        float | None, typer.Option(help="Start nothing that would end after this many seconds.")
    ],
    "max_gpu_time": Annotated[
        float | None,
        typer.Option(help="Stop before judging takes more GPU seconds than this, second looks included."),
    ],
    "good_enough": Annotated[
        float | None, typer.Option(metavar="FRACTION", help="Stop at this fraction of the roofline.")
    ],
    "confirm": Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Kernels of a GPU run that get a second look: best (each new best), "
            "end (the final best) or none.",
            show_default="best",
        ),
    ],
    "candidate_timeout": judging.Timeout,
    "library_ops": judging.LibraryOps,
    "baselines": judging.Baselines,
    "gpu": Annotated[
        str | None,
        typer.Option(
            help="GPU to write kernels for, such as H100 or RTX 4090.",
            show_default="this machine's, else H200",
        ),
    ],
    "api": Annotated[
        str | None,
        typer.Option(help="API of the endpoint: chat (Chat Completions) or responses.", show_default="chat"),
    ],
    "reasoning_effort": Annotated[
        str | None, typer.Option(help="Reasoning effort in the endpoint's terms, such as low or high.")
    ],
    "seed": Annotated[int | None, typer.Option(help="Sampling seed, for endpoints that accept one.")],
    "stop": Annotated[
        str | None, typer.Option(metavar="TEXT", help="Stop sequence; several as a JSON list.")
    ],
    "extra_body": Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Additional request parameters, as a JSON object."),
    ],
}


def taking(*names: str, after: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add these options to a command, after its own parameter `after`.

    The command receives the options that the user gave in its argument `given`. Decorators can be stacked to
    add options in several places.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_options(**options: Any) -> None:
            given = options.pop("given", {}) | {name: options.pop(name) for name in names}
            command(**options, given={name: value for name, value in given.items() if value is not None})

        own = inspect.signature(command)
        kept = [parameter for name, parameter in own.parameters.items() if name != "given"]
        place = next(number for number, parameter in enumerate(kept, 1) if parameter.name == after)
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_OPTIONS[name])
            for name in names
        ]
        every = [*kept[:place], *added, *kept[place:]]
        shown = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in every]
        with_options.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
        with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
        return with_options

    return decorate
