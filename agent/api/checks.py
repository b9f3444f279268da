"""The checks that the caller selects for judging a candidate."""

from typing import Literal

from agent.records import LibraryOps, Record, Request


class Checks(Record):
    """The checks that a candidate has to pass. The defaults match `agent eval`.

    >>> Checks(quick=True).protocol
    'quick'
    >>> Checks(backward=True, any_rank=True).requests
    ('backward', 'any-rank')
    """

    quick: bool = False
    """Use three input draws instead of fifteen. The verdict's scope lists what was left out."""
    backward: bool = False
    """Also judge the gradients of inputs and parameters."""
    compile_safe: bool = False
    """Also judge that torch.compile traces `forward` without a graph break."""
    any_rank: bool = False
    """Also judge inputs of other ranks and shapes."""
    confirmed: bool = False
    """Refuse a candidate whose second look could not make all of its main checks."""
    timing: bool = True
    """Time verified candidates where a GPU is present."""
    confirm: bool = True
    """Wait for the second look at a candidate that was verified on a GPU.

    If False, the scope says `confirmed: false`. The emulator and `quick` make no second look, so False is
    refused for them. In a run, False means `confirm="none"` of `Search`.
    """
    admit_anyway: bool = False
    """Judge even a problem that lets wrong answers pass. The evaluation records this."""
    library_ops: LibraryOps | None = None
    """Torch operators that a candidate may keep: `gemm-conv`, `none` or `any`. None uses the setting."""
    sanitizer: bool | None = None
    """Check memory accesses, races and barriers on the emulator. None uses the setting (on)."""
    sandbox: Literal["auto", "require"] | None = None
    """`require` raises EnvironmentFault where candidates cannot be isolated. None uses the setting."""
    candidate_timeout_s: float | None = None
    """Time limit for each step of a candidate in seconds. None uses the setting."""

    @property
    def protocol(self) -> Literal["full", "quick"]:
        return "quick" if self.quick else "full"

    @property
    def requests(self) -> tuple[Request, ...]:
        """Return the checks that are made in addition to the outputs of `forward`."""
        chosen: tuple[tuple[Request, bool], ...] = (
            ("backward", self.backward),
            ("compile-safe", self.compile_safe),
            ("any-rank", self.any_rank),
            ("confirmed", self.confirmed),
        )
        return tuple(name for name, wanted in chosen if wanted)

    def flags(self) -> dict[str, object]:
        """Return the settings that these checks override, by setting name. None keeps a setting."""
        return {
            "library_ops": self.library_ops,
            "unchecked": None if self.sanitizer is None else not self.sanitizer,
            "sandbox": self.sandbox,
            "candidate_timeout": self.candidate_timeout_s,
        }


def with_requirements(checks: Checks, require: str) -> Checks:
    """Return the checks with those added that the requirements name."""
    from agent import prompts

    named = prompts.requested(require) if require else ()
    return checks.model_copy(update={name.replace("-", "_"): True for name in named})
