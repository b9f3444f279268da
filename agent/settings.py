"""All settings: names, types, defaults and descriptions. `agent.config` merges their sources."""

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
"""Request parameters that `extra_body` may not contain.

Most have settings of their own. The rest are reserved, because a request asks one model for one answer.
"""


class Settings(BaseSettings):
    """Validated settings. Each can be set by the environment variable AGENT_<NAME>."""

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
    """Name of the model at the endpoint. If several are given (A,B), better ones are asked more often."""
    base_url: str | None = None
    """URL of the endpoint, such as http://localhost:8000/v1."""
    api_key: SecretStr | None = None
    """API key of the endpoint."""
    executor: Literal["auto", "cuda", "emulator"] = "auto"
    """Backend that judges candidates: auto (a GPU if present), cuda, emulator or a judge service's URL."""
    service: str | None = None
    """URL of a judge service that judges instead of this machine; set if the executor is a URL."""
    service_token: SecretStr | None = None
    """Token of the judge service."""
    sandbox: Literal["auto", "require"] = "auto"
    """auto warns if candidates cannot be isolated; require exits."""
    rounds: int = Field(6, ge=1)
    """Maximum number of model rounds."""
    patience: int = Field(2, ge=1)
    """Number of rounds without a faster kernel after which a run on a GPU stops."""
    search: PolicyName | None = None
    """Search policy: line, beam or evolve; by default beam on a GPU, else line."""
    samples: int = Field(4, ge=1)
    """Number of independent lines of attempts that beam and evolve start."""
    width: int = Field(2, ge=1)
    """Number of lines of attempts that beam keeps extending, or number of islands of evolve."""
    plan: bool | None = None
    """Ask for a ranked list of approaches before any kernel; by default only with evolve."""
    parallel: int = Field(1, ge=1, le=64)
    """Maximum number of rounds in progress at the same time."""
    max_tokens: int | None = Field(None, ge=1)
    """Maximum number of tokens that a run may use, input and output."""
    max_cost: float | None = Field(None, gt=0)
    """Maximum cost of a run in dollars; needs the price of the model in `prices`."""
    max_time: float | None = Field(None, gt=0)
    """Maximum duration of a run in seconds; no round starts that is expected to end later."""
    max_gpu_time: float | None = Field(None, gt=0)
    """Maximum GPU time of a run in seconds for judging, including second looks."""
    good_enough: float | None = Field(None, gt=0, le=1)
    """Fraction of the roofline at which a run stops, up to 1."""
    confirm: ConfirmPolicy = "best"
    """Kernels of a GPU run that get a second look: best (each new best), end (the final best) or none."""
    prices: dict[str, dict[Literal["input", "output"], float]] = {}
    """Dollars per million tokens by model name, or * for any model: {"m": {"input": 1, "output": 4}}."""
    runs_dir: Path = Path("runs")
    """Folder to which runs are written."""
    unchecked: bool = False
    """Turn off the emulator's sanitizer (memory accesses, races, barriers)."""
    candidate_timeout: float = Field(120.0, gt=0)
    """Maximum time in seconds for one step of a candidate."""
    library_ops: LibraryOps = "gemm-conv"
    """Torch operators that a candidate may still call: gemm-conv, none or any."""
    baselines: Annotated[tuple[MoreBaselines, ...], NoDecode] = ()
    """Baselines besides eager and torch.compile: max-autotune, graphs (each one also as a CUDA graph)."""
    gpu: str | None = None
    """GPU model for which kernels are written; by default the one of this machine, else H200."""
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
    """Stream answers; turn it off for servers whose streams break."""
    reasoning_effort: str | None = None
    """Reasoning effort in the endpoint's terms, such as low or high."""
    seed: int | None = None
    """Sampling seed, for endpoints that accept one."""
    stop: Annotated[tuple[str, ...], NoDecode] = ()
    """Stop sequences: a single text, or a JSON list."""
    extra_body: Annotated[dict[str, JsonValue], NoDecode] = {}
    """Additional request parameters, as a JSON object. They are recorded with the run: put no key here."""
    request_timeout: float = Field(600.0, gt=0)
    """Timeout in seconds of one request, or of the program in command:CMD."""
    retry_for: float = Field(300.0, ge=0)
    """Total time in seconds for which a failing request is retried."""

    @model_validator(mode="before")
    @classmethod
    def _service_as_executor(cls, values: dict[str, object]) -> dict[str, object]:
        """Move an executor that is a URL to `service`."""
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
        """Disable pydantic's own sources. `config.load` merges the layers and tracks each value's origin."""
        return (init_settings,)


class KernelSettings(BaseSettings):
    """Settings of the shipped kernels when a program imports them.

    They come only from environment variables: a library does not read the project files of its importer.
    """

    model_config = SettingsConfigDict(
        env_prefix="AGENT_", env_ignore_empty=True, frozen=True, use_attribute_docstrings=True
    )

    kernels_strict: bool = False
    """Raise an error for a call that a kernel does not support, instead of falling back to torch."""
    kernels_disable: bool = False
    """Send every call to torch."""
    kernels_always: bool = False
    """Use a kernel for every call that it supports. This includes small calls, for which torch takes less
    host time, and calls that torch.compile fuses with their neighbours."""
    kernels_replay: bool = True
    """Replay kernel calls in C++, which takes less host time than the path through Python. The extension for
    it is built on first use, by g++ against torch's headers."""
    kernels_built: Path | None = None
    """Folder of libraries written by `agent kernels build --to`. Matching ones are loaded instead of built.
    Set it only to a folder that you trust."""
    cache_dir: Path = Field(default_factory=lambda: platformdirs.user_cache_path(APPLICATION))
    """Cache folder; kernels are built in its subfolder `kernels`."""
