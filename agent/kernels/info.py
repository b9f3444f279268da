"""State of the kernels in this process, and the verdicts on each."""

from dataclasses import dataclass, field

from agent.kernels import manifest, routing, sources


@dataclass(frozen=True)
class KernelInfo:
    """One kernel: its envelope, its verdicts, and its builds and fallbacks in this process."""

    name: str
    envelope: tuple[str, ...]
    verified: tuple[str, ...]
    """One entry for each verdict, `verified on cuda: SCOPE`; empty without a verdict."""
    is_disabled: bool
    builds: dict[int, str] = field(default_factory=dict)
    """State of each CUDA device on which the kernel was called: `ready`, or why there is no library."""
    fallbacks: dict[str, int] = field(default_factory=dict)
    """Number of calls that went to torch, by reason."""

    def __str__(self) -> str:
        lines = [f"{self.name}{' (switched off by AGENT_KERNELS_DISABLE)' if self.is_disabled else ''}"]
        lines += [f"  {words}" for words in self.verified] or ["  not verified"]
        lines += [f"  cuda:{device}: {state}" for device, state in self.builds.items()]
        lines += [f"  torch computed {count} calls: {reason}" for reason, count in self.fallbacks.items()]
        return "\n".join(lines)


def info(name: str | None = None) -> dict[str, KernelInfo]:
    """Return the info of every kernel by name, or of the named one. Raises KeyError for an unknown name."""
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
