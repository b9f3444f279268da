"""What the library did in this process, and what it knows of its kernels."""

from dataclasses import dataclass, field

from agent.kernels import manifest, routing, sources


@dataclass(frozen=True)
class KernelInfo:
    """One kernel as it stands in this process."""

    name: str
    envelope: tuple[str, ...]
    verified: tuple[str, ...]
    """`verified on cuda`, with the scope; empty where nothing was."""
    is_disabled: bool
    builds: dict[int, str] = field(default_factory=dict)
    """For each CUDA device that it was called on: `ready`, or why there is no library."""
    fallbacks: dict[str, int] = field(default_factory=dict)
    """Why calls went to torch, and how many did."""

    def __str__(self) -> str:
        lines = [f"{self.name}{' (switched off by AGENT_KERNELS_DISABLE)' if self.is_disabled else ''}"]
        lines += [f"  {words}" for words in self.verified] or ["  not verified"]
        lines += [f"  cuda:{device}: {state}" for device, state in self.builds.items()]
        lines += [f"  torch computed {count} calls: {reason}" for reason, count in self.fallbacks.items()]
        return "\n".join(lines)


def info(name: str | None = None) -> dict[str, KernelInfo]:
    """Every kernel by name, or the one that is asked for. Raises KeyError for a name that is none."""
    if name is not None and name not in sources.NAMES:
        raise KeyError(f"there is no kernel {name!r}; there are {', '.join(sources.NAMES)}")
    return {known: _of(known) for known in sources.NAMES if name in (None, known)}


def _of(name: str) -> KernelInfo:
    known = manifest.load(name)
    return KernelInfo(
        name=name,
        envelope=known.envelope,
        verified=tuple(f"{one.status} on {one.executor}: {one.scope}" for one in known.verified),
        is_disabled=routing.is_disabled(),
        builds=routing.states(name),
        fallbacks=routing.fallbacks(name),
    )
