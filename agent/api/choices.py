"""Options of a run other than its checks."""

from agent.records import ConfirmPolicy, PolicyName, Record


class Budget(Record):
    """Limits that end a run. None uses the setting."""

    rounds: int | None = None
    """Maximum number of model rounds."""
    patience: int | None = None
    """Number of rounds without a faster kernel after which a run on a GPU ends."""
    max_tokens: int | None = None
    """Maximum number of tokens, prompts and answers together."""
    max_cost: float | None = None
    """Maximum cost in dollars."""
    max_time: float | None = None
    """Maximum wall-clock time in seconds."""
    max_gpu_time: float | None = None
    """Maximum time spent judging on a GPU in seconds."""
    good_enough: float | None = None
    """Fraction of the roofline at which the search ends."""


class Search(Record):
    """Search strategy that decides what the model is asked next. None uses the setting."""

    search: PolicyName | None = None
    samples: int | None = None
    """Number of lines of attempts that start from scratch."""
    width: int | None = None
    """Number of lines of attempts that are continued."""
    plan: bool | None = None
    """Ask for a ranked list of approaches before the first kernel."""
    parallel: int | None = None
    """Maximum number of rounds open at the same time."""
    confirm: ConfirmPolicy | None = None
    """Kernels that get a second look on a GPU: `best` (each new best), `end` (the final one) or `none`."""


class Choices(Record):
    """Options that apply to one run and are not settings."""

    require: str = ""
    """Requirements from the user, one per line, or `@FILE`."""
    autofix: bool = True
    """Apply a fix without asking the model where a fault has exactly one."""
    in_order: bool = False
    """With `replay:RUN`: replay the stored answers in order and ignore the prompts."""
    no_wait: bool = False
    """With `mailbox:DIR`: stop once only answers are missing. The run can be resumed."""
    label: str = ""
    """Name that the caller gives the run. It is stored with the run's settings."""
    from_composed: bool = False
    """Use the composed file as the first answer and ask the provider to improve it."""
