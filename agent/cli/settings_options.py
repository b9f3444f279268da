"""Options of a command that are settings and nothing else: named once, told to `config.load` as flags.

Contract: the name, the type on the command line and the help of each come from here; what it means, its
default and its check from `agent.settings`. A command lists the names it takes and receives them as one
dictionary, `given`, without those that were not given.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from agent.cli import judging

_OPTIONS: dict[str, Any] = {
    "model": Annotated[str | None, typer.Option(help="Model that the endpoint knows; several: A,B.")],
    "base_url": Annotated[str | None, typer.Option(help="URL of the endpoint.")],
    "search": Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="How to search: line, beam or evolve.",
            show_default="beam on a GPU, else line",
        ),
    ],
    "samples": Annotated[
        int | None,
        typer.Option(help="Lines of attempts that beam and evolve begin afresh.", show_default="4"),
    ],
    "width": Annotated[
        int | None,
        typer.Option(help="Lines that beam goes on with, and islands of evolve.", show_default="2"),
    ],
    "plan": Annotated[
        bool | None,
        typer.Option(
            "--plan/--no-plan",
            help="Ask for a ranked list of approaches first; costs a round.",
            show_default="--plan with evolve",
        ),
    ],
    "parallel": Annotated[
        int | None, typer.Option(help="Rounds that may be open at the same time.", show_default="1")
    ],
    "max_tokens": Annotated[int | None, typer.Option(help="End before more tokens are asked and answered.")],
    "max_cost": Annotated[
        float | None,
        typer.Option(help="End before the run costs more dollars; needs the setting `prices`."),
    ],
    "max_time": Annotated[
        float | None, typer.Option(help="Begin nothing that would end after so many seconds.")
    ],
    "max_gpu_time": Annotated[
        float | None,
        typer.Option(help="End before judging takes more seconds of a GPU, confirmation included."),
    ],
    "good_enough": Annotated[
        float | None, typer.Option(metavar="FRACTION", help="End at this share of the roofline.")
    ],
    "confirm": Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="On a GPU, look a second time at each new best, the best at the end, or none.",
            show_default="best",
        ),
    ],
    "candidate_timeout": judging.Timeout,
    "library_ops": judging.LibraryOps,
    "baselines": judging.Baselines,
    "gpu": Annotated[
        str | None,
        typer.Option(
            help="GPU that kernels are written for, such as H100 or RTX 4090.",
            show_default="this machine's, else H200",
        ),
    ],
    "api": Annotated[
        str | None,
        typer.Option(help="API of the endpoint: chat (Chat Completions) or responses.", show_default="chat"),
    ],
    "reasoning_effort": Annotated[
        str | None, typer.Option(help="How hard the model thinks, in the endpoint's words: low, high.")
    ],
    "seed": Annotated[int | None, typer.Option(help="Seed of the sampling, where the endpoint takes one.")],
    "stop": Annotated[
        str | None, typer.Option(metavar="TEXT", help="Text at which an answer ends; several: a JSON list.")
    ],
    "extra_body": Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Further parameters of each request, as a JSON object."),
    ],
}


def taking(*names: str, after: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command these options, behind its own `after`; it receives them as its argument `given`.

    Used twice, it puts options in two places.
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
