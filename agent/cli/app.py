"""The command line: a table of commands, and a boundary that turns every error into one line.

A command's module is imported only when the command is called, so help starts fast. Within the module, heavy
packages (torch, openai, jinja2, the loop) are imported inside functions.
"""

import sys
import traceback
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command

from agent import __version__
from agent.cli import console
from agent.errors import AgentError, EnvironmentFault

_PLAIN: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}
"""Options for plain-text help and usage errors. `Boundary` words every other error."""
_OWN_ERRORS: tuple[type[BaseException], ...] = (typer.Exit, typer.Abort, typer.BadParameter.__mro__[2])
"""Exceptions with which typer itself ends a command.

The last one is the base class of its usage errors, which typer does not export.
"""


class Command(NamedTuple):
    """One command: the import path of its function, its line in the list, and the example in its help."""

    name: str
    target: str
    summary: str
    example: str

    def load(self) -> Any:
        """Import the module and return the command, or the group of commands."""
        module, function = self.target.split(":")
        found = getattr(import_module(module), function)
        if isinstance(found, typer.Typer):
            return get_command(found)
        application = typer.Typer(add_completion=False, **_PLAIN)
        application.command(self.name, epilog=f"Example: {self.example}")(found)
        return get_command(application)


COMMANDS = (
    Command("run", "agent.cli.run:run", "Find a verified kernel for a reference.",
            "agent run level1/softmax --provider catalogue --executor emulator"),
    Command("eval", "agent.cli.eval:evaluate", "Judge one candidate.",
            "agent eval level1/group_norm recorded/group_norm:4 --executor emulator"),
    Command("replay", "agent.cli.replay:replay", "Judge the stored candidates of a run again.",
            "agent replay recorded/group_norm --executor emulator"),
    Command("runs", "agent.cli.runs:runs", "List, check or delete runs.",
            "agent runs --status verified --sort speedup"),
    Command("show", "agent.cli.show:show", "Show a run's attempts, their verdicts, and the best kernel.",
            "agent show recorded/group_norm --round 2"),
    Command("view", "agent.cli.view:view", "Show runs in a browser, or export one to a single HTML file.",
            "agent view recorded/group_norm --export run.html"),
    Command("bench", "agent.cli.bench:app", "Run a suite of problems, and report or compare results.",
            "agent bench references --provider catalogue --executor emulator"),
    Command("mcp", "agent.cli.mcp:mcp", "Serve the judge to coding agents over MCP.",
            "agent mcp --candidates . --executor emulator"),
    Command("serve", "agent.cli.serve:serve", "Serve the judge over HTTP.",
            "agent serve --folder service --executor emulator"),
    Command("export", "agent.cli.export:export", "Export a verified kernel as a standalone package.",
            "agent export recorded/group_norm --to group_norm_package"),
    Command("skill", "agent.cli.skill:app", "Install the skill for coding agents.",
            "agent skill install .agents/skills"),
    Command("kernels", "agent.cli.kernels:app", "List, verify, time and build the shipped kernels.",
            "agent kernels list"),
    Command("doctor", "agent.cli.doctor:doctor", "Check what works on this machine and how to fix the rest.",
            "agent doctor"),
    Command("config", "agent.cli.config_show:config", "Show all settings with their values and origins.",
            "AGENT_ROUNDS=3 agent config"),
    Command("cache", "agent.cli.cache:cache", "Show the contents and sizes of the cache, or clear it.",
            "agent cache --clear"),
)  # fmt: skip


class Boundary(TyperGroup):
    """Group that turns an exception of a command into an exit code and one line on stderr."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        console.reset()
        return super().make_context(*args, **extra)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        return name, next(command for command in COMMANDS if command.name == name).load(), rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except _OWN_ERRORS:
            raise
        except BrokenPipeError:
            # The reader has closed the pipe (`agent show X | head`); typer then exits silently.
            raise
        except AgentError as error:
            raise _end(error, str(error), error.exit_code) from error
        except KeyboardInterrupt as error:
            raise _end(error, "interrupted", 130) from error
        except Exception as error:  # noqa: BLE001 - last resort: a bug of ours, reported in one line
            message = f"{type(error).__name__}: {error}"
            message += (
                ""
                if console.is_verbose()
                else " (a bug in kernelwright; run again with -v for the traceback)"
            )
            raise _end(error, message, 1) from error


def _end(error: BaseException, message: str, code: int) -> typer.Exit:
    if console.is_verbose():
        details = error.details if isinstance(error, EnvironmentFault) else ""
        sys.stderr.write(console.plain("".join(traceback.format_exception(error)) + details))
    console.error(message)
    return typer.Exit(code)


def _print_version(value: bool) -> None:
    if value:
        sys.stdout.write(f"kernelwright {__version__}\n")
        raise typer.Exit


def _start(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Turn a PyTorch reference into a verified, hand-written CUDA kernel."""


def _not_loaded() -> None:
    """Stand in for a command in the list until `resolve_command` loads it."""
    raise AssertionError("a command was called that was not loaded")


def build_app() -> typer.Typer:
    """Build the application, which lists every command by name and summary."""
    application = typer.Typer(
        name="agent",
        cls=Boundary,
        no_args_is_help=True,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **_PLAIN,
    )
    application.callback(epilog="Example: agent show recorded/group_norm")(_start)
    for command in COMMANDS:
        application.command(command.name, help=command.summary)(_not_loaded)
    return application


app = build_app()
