"""Every setting: its name, its type, its default and what it means. Where values come from: `config`."""

import json
from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from pydantic import Field, JsonValue, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from agent.records import ConfirmPolicy, LibraryOps, MoreBaselines, PolicyName

APPLICATION = "kernelwright"
PROVIDERS = ("openai_compat", "compose", "catalogue", "replay:RUN", "command:CMD", "mailbox:DIR",
             "file:PATH")  # fmt: skip
_WITH_ARGUMENT = ("replay:", "command:", "mailbox:", "file:")
_OWN_PARAMETERS = frozenset(
    {"model", "messages", "input", "instructions", "stream", "stream_options", "n", "temperature", "seed",
     "stop", "reasoning_effort", "max_tokens", "max_completion_tokens", "max_output_tokens"}
)  # fmt: skip
"""What a request says by settings of their own, or must not say: an answer is one, from the model named."""


class Settings(BaseSettings):
    """Every setting, checked. The environment's name is AGENT_<NAME> unless another is given."""

    model_config = SettingsConfigDict(
        env_prefix="AGENT_",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )

    provider: str | None = None
    """Source of the answers: openai_compat, compose, catalogue, replay:RUN, command:CMD, mailbox:DIR or
    file:PATH; by default an endpoint if configured, else compose."""
    model: str | None = None
    """Model name that the endpoint knows; of several, with commas between, the better ones are asked more."""
    base_url: str | None = None
    """URL of the endpoint, such as http://localhost:8000/v1."""
    api_key: SecretStr | None = None
    """API key of the endpoint."""
    executor: Literal["auto", "cuda", "emulator"] = "auto"
    """Backend that judges candidates; auto takes the GPU where there is one. A URL is that of a service."""
    service: str | None = None
    """URL of the judge service that judges instead of this machine; set by an executor that is a URL."""
    service_token: SecretStr | None = None
    """Token of that service."""
    sandbox: Literal["auto", "require"] = "auto"
    """auto warns if candidates cannot be isolated; require exits."""
    rounds: int = Field(6, ge=1)
    """Maximum number of model rounds."""
    patience: int = Field(2, ge=1)
    """Number of rounds without a faster kernel after which a run on a GPU stops."""
    search: PolicyName | None = None
    """How it is chosen what is asked next: line, beam or evolve; by default beam on a GPU, else line."""
    samples: int = Field(4, ge=1)
    """Lines of attempts that beam and evolve begin afresh."""
    width: int = Field(2, ge=1)
    """Lines of attempts that beam goes on with, and islands of evolve."""
    plan: bool | None = None
    """Ask for a ranked list of approaches before any kernel; by default with evolve."""
    parallel: int = Field(1, ge=1, le=64)
    """Rounds that may be open at the same time."""
    max_tokens: int | None = Field(None, ge=1)
    """Tokens that a run may use, asked and answered."""
    max_cost: float | None = Field(None, gt=0)
    """Dollars that a run may cost; needs the price of the model."""
    max_time: float | None = Field(None, gt=0)
    """Seconds after which a run begins nothing more."""
    max_gpu_time: float | None = Field(None, gt=0)
    """Seconds of judging on a GPU that a run may take, confirming its best included."""
    good_enough: float | None = Field(None, gt=0, le=1)
    """Share of the roofline at which a run ends."""
    confirm: ConfirmPolicy = "best"
    """Kernels of a run on a GPU that get a second look: best (each new best), end (the final one) or none."""
    prices: dict[str, dict[Literal["input", "output"], float]] = {}
    """Dollars for a million tokens by name of the model, or * for any: {"m": {"input": 1, "output": 4}}."""
    runs_dir: Path = Path("runs")
    """Folder that runs are written to."""
    unchecked: bool = False
    """Turn off the emulator's sanitizer (memory accesses, races, barriers)."""
    candidate_timeout: float = Field(120.0, gt=0)
    """Maximum time in seconds for one step of a candidate."""
    library_ops: LibraryOps = "gemm-conv"
    """Torch operators that a candidate may still call: gemm-conv, none or any."""
    baselines: Annotated[tuple[MoreBaselines, ...], NoDecode] = ()
    """Baselines besides eager and torch.compile: max-autotune, graphs (each of them as a CUDA graph too)."""
    gpu: str | None = None
    """GPU model that kernels are written for; by default the one of this machine, else H200."""
    kernelbench_root: Path | None = None
    """Local checkout of KernelBench, for kernelbench:LEVEL/ID."""
    cache_dir: Path = Field(default_factory=lambda: platformdirs.user_cache_path(APPLICATION))
    """Cache folder for precompiled headers and builds, shared by all runs of a user."""
    temperature: float | None = Field(None, ge=0)
    """Sampling temperature; the endpoint's default if not set."""
    max_output_tokens: int | None = Field(None, ge=1)
    """Maximum number of output tokens per answer; the endpoint's default if not set."""
    api: Literal["chat", "responses"] = "chat"
    """API of the endpoint: chat (Chat Completions) or responses."""
    stream: bool = True
    """Receive an answer while it is written; off for servers whose streams break."""
    reasoning_effort: str | None = None
    """How hard the model thinks, in the endpoint's words, such as low or high."""
    seed: int | None = None
    """Seed of the sampling, for endpoints that take one."""
    stop: Annotated[tuple[str, ...], NoDecode] = ()
    """Texts at which an answer ends: one, or a JSON list."""
    extra_body: Annotated[dict[str, JsonValue], NoDecode] = {}
    """Further parameters of each request, as a JSON object. Recorded with the run: no place for a key."""
    request_timeout: float = Field(600.0, gt=0)
    """Timeout of one request, or of the program of command:CMD, in seconds."""
    retry_for: float = Field(300.0, ge=0)
    """Total time in seconds for which a failing request is retried."""

    @model_validator(mode="before")
    @classmethod
    def _service_as_executor(cls, values: dict[str, object]) -> dict[str, object]:
        """An executor that is the URL of a service."""
        given = values.get("executor")
        if isinstance(given, str) and given.startswith(("http://", "https://")):
            return {**values, "executor": "auto", "service": given}
        return values

    @field_validator("provider")
    @classmethod
    def _known_provider(cls, value: str | None) -> str | None:
        if value is None or value in PROVIDERS[:3]:
            return value
        if value.startswith(_WITH_ARGUMENT) and value.partition(":")[2].strip():
            return value
        raise ValueError(f"unknown provider; choose one of {', '.join(PROVIDERS)}")

    @field_validator("stop", mode="before")
    @classmethod
    def _stops(cls, value: object) -> object:
        if isinstance(value, str):
            return json.loads(value) if value.startswith("[") else (value,)
        return value

    @field_validator("baselines", mode="before")
    @classmethod
    def _names(cls, value: object) -> object:
        if isinstance(value, str):
            return json.loads(value) if value.startswith("[") else tuple(value.replace(",", " ").split())
        return value

    @field_validator("extra_body", mode="before")
    @classmethod
    def _object(cls, value: object) -> object:
        return json.loads(value) if isinstance(value, str) else value

    @field_validator("extra_body")
    @classmethod
    def _extra(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        taken = sorted(_OWN_PARAMETERS & value.keys())
        if taken:
            raise ValueError(f"{taken[0]!r} has a place of its own and cannot be set here")
        return value

    @field_validator("runs_dir", "kernelbench_root", "cache_dir")
    @classmethod
    def _home(cls, value: Path | None) -> Path | None:
        return value.expanduser() if value is not None else None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """None of their own: `load` merges the layers, because it has to know where each value came from."""
        return (init_settings,)


class KernelSettings(BaseSettings):
    """What the shipped kernels heed when a program imports them: the environment alone.

    A library does not read the project files of whoever imports it.
    """

    model_config = SettingsConfigDict(
        env_prefix="AGENT_", env_ignore_empty=True, frozen=True, use_attribute_docstrings=True
    )

    kernels_strict: bool = False
    """Raise an error for a call that a kernel does not support, instead of falling back to torch."""
    kernels_disable: bool = False
    """Send every call to torch."""
    kernels_always: bool = False
    """Have a kernel compute every call that it supports, also small ones, for which torch takes less of the
    host's time, and those that torch.compile computes with what stands around them."""
    kernels_replay: bool = True
    """Replay calls of kernels in C++, which takes less of the host's time than the way through Python; the
    extension for it is built on first use, by g++ against torch's headers."""
    kernels_built: Path | None = None
    """Folder of libraries that `agent kernels build --to` wrote, which are loaded where they fit in place of
    building; set it only to a folder that you trust."""
    cache_dir: Path = Field(default_factory=lambda: platformdirs.user_cache_path(APPLICATION))
    """Cache folder; kernels are built in its subfolder `kernels`."""
