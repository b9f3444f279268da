"""Scope of a verdict, which accompanies every *verified*."""

from typing import Literal

from agent.records.base import Record

Request = Literal["backward", "compile-safe", "any-rank", "confirmed"]
"""Requirements that a user can add to the protocol; a candidate that fails one is refused."""

_SHOWN_NAMES = 8
_LOOKS = {None: "", True: ", confirmed by a second look", False: ", not confirmed by a second look"}
_DOUBT = ", not confirmed: a second look found nothing against it, and could not do all of its checks"


class Scope(Record):
    """Coverage of a verdict: the executor, sizes and checks to which *verified* refers."""

    executor: Literal["cuda", "emulator"]
    shapes: Literal["full", "shrunken"] = "full"
    sizes: dict[str, tuple[int, int]] = {}
    """Sizes that were shrunken: name -> (size in the reference, judged size)."""
    modulus: int | None = None
    """Each judged size except the batch has the reference size's remainder modulo this number; null if the
    remainders were not kept."""
    further: tuple[dict[str, tuple[int, int]], ...] = ()
    """Other sizes at which the candidate was judged with fewer draws. They launch kernels of the real sizes
    that `sizes` does not launch."""
    unexercised: tuple[str, ...] = ()
    """Kernels that run at the real sizes but ran in no judged draw; *verified* does not cover them."""
    isolation: Literal["bubblewrap", "namespaces", "process"] = "process"
    protocol: Literal["full", "reduced", "quick"] = "full"
    """`reduced`: fewer draws, because each draw is costly at these sizes."""
    requested: tuple[Request, ...] = ()
    """Requests of the user that were judged in addition to the protocol."""
    parameters: dict[str, str] = {}
    """Parameters that ModelNew holds under another name: the reference's name -> ModelNew's name."""
    confirmed: bool | None = None
    """True if a second look with all of its main checks came to *verified* as well. False before the second
    look, and after one that refuses or leaves a `doubt`. Null if no second look belongs to the verdict: on
    the emulator, with `--quick`, for a candidate refused by the first look, and before schema version 4."""
    doubt: tuple[str, ...] = ()
    """Main checks of the second look that did not run, each also in `skipped`. *Verified* with a doubt is not
    confirmed, and no further look is due."""
    skipped: tuple[str, ...] = ()
    """Checks of the protocol that did not run, each with its reason."""

    def __str__(self) -> str:
        where = "GPU" if self.executor == "cuda" else "CPU emulator"
        kept = f"; remainders modulo {self.modulus}" if self.modulus else ""
        shapes = "full shapes" if self.shapes == "full" else f"shrunken shapes ({_listed(self.sizes)}{kept})"
        shapes += "".join(f" and ({_listed(sizes)})" for sizes in self.further)
        beside = "".join(f", {request}" for request in self.requested)
        shown = [f"{name}={own}" for name, own in list(self.parameters.items())[:_SHOWN_NAMES]]
        more = len(self.parameters) - len(shown)
        pairs = ", ".join([*shown, f"{more} more"] if more else shown)
        renamed = f", parameters by other names ({pairs})" if pairs else ""
        judged = f"{where}, {shapes}, isolation {self.isolation}, {self.protocol} protocol"
        look = _DOUBT if self.doubt else _LOOKS[self.confirmed]
        return f"{judged}{beside}{renamed}{look}{self.exception}"

    @property
    def limits(self) -> tuple[str, ...]:
        """Return the restrictions of a verdict in short words for lists: `shrunken`, `except scan<8>`."""
        words: list[str] = [
            word for word in (self.shapes, self.protocol) if word in ("shrunken", "reduced", "quick")
        ]
        words += ["not confirmed"] if self.confirmed is False else []
        more = f" and {len(self.unexercised) - 1} more" if len(self.unexercised) > 1 else ""
        return (*words, *(f"except {name}{more}" for name in self.unexercised[:1]))

    @property
    def exception(self) -> str:
        """Return the text after *verified* that names kernels which did not run; empty if all ran."""
        if not self.unexercised:
            return ""
        kernels = "kernel" if len(self.unexercised) == 1 else "kernels"
        return f", except {kernels} {', '.join(self.unexercised)}, which only the real sizes launch"


def _listed(sizes: dict[str, tuple[int, int]]) -> str:
    return ", ".join(f"{name} {real}->{used}" for name, (real, used) in sizes.items())
