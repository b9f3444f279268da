"""What a candidate is judged on, chosen by the caller."""

from typing import Literal

from agent.records import LibraryOps, Record, Request


class Checks(Record):
    """Which checks a candidate has to pass; the defaults are those of `agent eval`.

    >>> Checks(quick=True).protocol
    'quick'
    >>> Checks(backward=True, any_rank=True).requests
    ('backward', 'any-rank')
    """

    quick: bool = False
    """Three draws of inputs instead of fifteen; the scope of the verdict lists what was left out."""
    backward: bool = False
    """Judge the gradients of inputs and parameters as well."""
    compile_safe: bool = False
    """Judge that torch.compile traces forward without a graph break."""
    any_rank: bool = False
    """Judge inputs of other ranks and shapes as well."""
    timing: bool = True
    """Time a verified candidate where there is a GPU."""
    confirm: bool = True
    """Wait for the second look at what a GPU verified; without it the scope says `confirmed: false`. Can be
    left out where there is one: not on the emulator or with `quick`. In a run, False is `confirm="none"` of
    `Search`."""
    admit_anyway: bool = False
    """Judge even a problem on which wrong answers would pass; recorded in the evaluation."""
    library_ops: LibraryOps | None = None
    """Torch operators that a candidate may keep: `gemm-conv`, `none` or `any`; None: the setting."""
    sanitizer: bool | None = None
    """Whether the emulator checks memory accesses, races and barriers; None: the setting (on)."""
    sandbox: Literal["auto", "require"] | None = None
    """`require` raises EnvironmentFault where candidates cannot be isolated; None: the setting."""
    candidate_timeout_s: float | None = None
    """Upper limit of each step of a candidate in seconds; None: the setting."""

    @property
    def protocol(self) -> Literal["full", "quick"]:
        return "quick" if self.quick else "full"

    @property
    def requests(self) -> tuple[Request, ...]:
        """What is judged in addition to the outputs of forward."""
        chosen: tuple[tuple[Request, bool], ...] = (
            ("backward", self.backward),
            ("compile-safe", self.compile_safe),
            ("any-rank", self.any_rank),
        )
        return tuple(name for name, wanted in chosen if wanted)

    def flags(self) -> dict[str, object]:
        """The settings that these checks override, under the settings' names."""
        return {
            "library_ops": self.library_ops,
            "unchecked": None if self.sanitizer is None else not self.sanitizer,
            "sandbox": self.sandbox,
            "candidate_timeout": self.candidate_timeout_s,
        }


def with_requirements(checks: Checks, require: str) -> Checks:
    """The checks, and those that are named among the requirements."""
    from agent import prompts

    named = prompts.requested(require) if require else ()
    return checks.model_copy(update={name.replace("-", "_"): True for name in named})
