"""What modules of a norm with an activation share: `act` beside torch's own arguments, and `from_torch`."""

from typing import Any, TypeVar

from torch import nn

M = TypeVar("M", bound="Acting")


class Acting(nn.Module):
    """Stands before torch's class among the bases; parameters, buffers and state_dict are that one's."""

    act: str = "none"

    def __init__(self, *arguments: Any, act: str = "none", **options: Any) -> None:
        """As torch's, and the activation."""
        super().__init__(*arguments, **options)
        self.act = act

    @classmethod
    def from_torch(cls: type[M], module: nn.Module) -> M:
        """The same layer over the same parameters and buffers, which are shared and not copied."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def extra_repr(self) -> str:
        """With the activation, where there is one."""
        return super().extra_repr() + ("" if self.act == "none" else f", act={self.act}")
