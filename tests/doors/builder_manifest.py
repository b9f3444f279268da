"""What Hugging Face's kernel builder takes as `build.toml` for a kernel without a build step.

Edition 5, transcribed from the fields that its parser knows (`kernels-data`, August 2026); it refuses every
other one. The published Python package of that parser has no reader of manifests.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Backend = Literal["cann", "cpu", "cuda", "metal", "neuron", "rocm", "tpu", "xpu"]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Hub(_Table):
    repo_id: str | None = Field(None, alias="repo-id")
    branch: str | None = None


class General(_Table):
    name: Annotated[str, Field(pattern=r"^[a-z][-a-z0-9]*[a-z0-9]$")]
    version: Annotated[int, Field(ge=0)]
    edition: Literal[5]
    license: str
    upstream: str | None = None
    source: str | None = None
    backends: list[Backend]
    hub: Hub | None = None
    python_depends: list[str] | None = Field(None, alias="python-depends")


class TorchNoarch(_Table):
    pyext: list[str] | None = None
    cuda_capabilities: list[str] | None = None
    rocm_archs: list[str] | None = None


class Build(_Table):
    general: General
    torch_noarch: TorchNoarch = Field(alias="torch-noarch")
    kernel: dict[str, object] = {}


def read(project: Path) -> Build:
    """The manifest of a project. Raises ValidationError for what the builder would refuse."""
    return Build.model_validate(tomllib.loads((project / "build.toml").read_text(encoding="utf-8")))
