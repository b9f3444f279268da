"""Base of the norm modules with an activation: the argument `act`, and `from_torch`."""

from typing import Any, TypeVar

from torch import nn

M = TypeVar("M", bound="Acting")


class Acting(nn.Module):
    """Mixin that precedes torch's class among the bases, whose parameters and state_dict it keeps."""

    act: str = "none"

    def __init__(self, *arguments: Any, act: str = "none", **options: Any) -> None:
        """Take the arguments of torch's class, and the name of the activation."""
        super().__init__(*arguments, **options)
        self.act = act

    @classmethod
    def from_torch(cls: type[M], module: nn.Module) -> M:
        """Return this layer over the module's own parameters and buffers, which are shared, not copied."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def extra_repr(self) -> str:
        """Return the representation of torch's class, followed by the activation if there is one."""
        return super().extra_repr() + ("" if self.act == "none" else f", act={self.act}")
