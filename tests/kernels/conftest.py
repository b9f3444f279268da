"""Every test of the library starts with nothing warned, built or read from the environment."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels.replaying_calls import built as built
from kernels.replaying_calls import calls as calls

from agent.kernels import routing


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AGENT_KERNELS_STRICT", "AGENT_KERNELS_DISABLE", "AGENT_KERNELS_ALWAYS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AGENT_CACHE_DIR", str(tmp_path / "cache"))
    routing.reset()
    yield
    routing.reset()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU tensors count as inside the envelope, so that calls reach the operators' CPU implementation."""

    def none(*_: object) -> None:
        return None

    monkeypatch.setattr(routing, "obstacle", none)
