"""What may be chosen about a run, beside what is checked."""

from agent.records import ConfirmPolicy, PolicyName, Record


class Budget(Record):
    """When a run ends; None: the setting."""

    rounds: int | None = None
    """Maximum number of model rounds."""
    patience: int | None = None
    """Rounds without a faster kernel after which a run on a GPU ends."""
    max_tokens: int | None = None
    """Tokens, asked and answered."""
    max_cost: float | None = None
    """Dollars."""
    max_time: float | None = None
    """Seconds by the clock."""
    max_gpu_time: float | None = None
    """Seconds of judging on a GPU."""
    good_enough: float | None = None
    """Share of the roofline."""


class Search(Record):
    """How it is chosen what is asked next; None: the setting."""

    search: PolicyName | None = None
    samples: int | None = None
    """Lines of attempts begun afresh."""
    width: int | None = None
    """Lines of attempts that are gone on with."""
    plan: bool | None = None
    """Whether a ranked list of approaches is asked for before any kernel."""
    parallel: int | None = None
    """Rounds that may be open at the same time."""
    confirm: ConfirmPolicy | None = None
    """Kernels that get a second look on a GPU: `best` (each new best), `end` (the final one) or `none`."""


class Choices(Record):
    """How a run goes about it, beside what is checked."""

    require: str = ""
    """Requirements of the user's own, one a line, or `@FILE`."""
    autofix: bool = True
    """Whether faults with exactly one mend are mended without asking the model."""
    in_order: bool = False
    """With `replay:RUN`: the stored answers in their order, whatever the prompt."""
    no_wait: bool = False
    """With `mailbox:DIR`: stop once nothing but answers is missing, to be resumed."""
    label: str = ""
    """What the run is called by whoever began it; stored with its settings."""
    from_composed: bool = False
    """Whether the first answer is the composed file, and the provider is asked to make it better."""
