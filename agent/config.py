"""Settings: flags > environment > project file > user file > defaults, each with its origin.

Only this module reads settings from os.environ. A project file is ./agent.toml or [tool.agent] in
./pyproject.toml. It travels with a repository, so it may not send a key that the user keeps elsewhere to an
endpoint of its choice.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource

from agent.errors import UsageError
from agent.settings import APPLICATION, KernelSettings, Settings

__all__ = [
    "APPLICATION", "DEFAULT", "KernelSettings", "Layer", "Resolved", "Settings", "candidate_environment",
    "child_environment", "forget_secrets", "kernel_settings", "load", "with_package",
]  # fmt: skip

PROJECT_FILES = ("agent.toml", "pyproject.toml")
DEFAULT = "default"

_SHARED_VARIABLES = {
    "api_key": "OPENAI_API_KEY",
    "base_url": "OPENAI_BASE_URL",
    "kernelbench_root": "KERNELBENCH_ROOT",
}
"""Environment variables that other programs use too. AGENT_<NAME> takes precedence."""
_CHILD_ALLOWED = (
    "PATH", "PYTHONPATH", "VIRTUAL_ENV", "HOME", "USER", "LOGNAME", "LANG", "LC_*", "TZ", "TMPDIR",
    "XDG_CACHE_HOME", "CC", "CXX", "MAX_JOBS", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "OMP_WAIT_POLICY", "LD_LIBRARY_PATH", "CUDA_*", "NVIDIA_*", "NVCC_*", "TORCH_*",
)  # fmt: skip
_CANDIDATE_ALLOWED = (
    "PATH", "LANG", "LC_*", "TZ", "CC", "CXX", "MAX_JOBS", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "OMP_WAIT_POLICY", "LD_LIBRARY_PATH", "CUDA_*", "NVIDIA_*", "NVCC_*", "TORCH_*",
)  # fmt: skip
_AT_A_TERMINAL = {
    "TERM": "xterm-256color", "SHELL": "/bin/bash", "USER": "user", "LOGNAME": "user",
}  # fmt: skip
"""Variables of a user's terminal. Their absence would tell a candidate that it is judged."""
_SECRET = ("*KEY", "*KEY_*", "*TOKEN*", "*SECRET*", "*PASSWORD*", "*CREDENTIAL*", "OPENAI_*")


@dataclass(frozen=True)
class Layer:
    """Settings from one kind of source."""

    kind: Literal["flag", "environment", "project", "user"]
    values: Mapping[str, object]
    places: Mapping[str, str]
    """Source of each value, as a user knows it: `--rounds`, `OPENAI_BASE_URL`, `agent.toml`."""


@dataclass(frozen=True)
class Resolved:
    """The settings, and the layer that each one came from. A setting without a layer has its default."""

    settings: Settings
    layers: Mapping[str, Layer]

    def origin(self, setting: str) -> str:
        """Return the source of a setting: `--rounds`, `OPENAI_BASE_URL`, a file's path, or `default`."""
        layer = self.layers.get(setting)
        return layer.places[setting] if layer else DEFAULT

    @property
    def redirect(self) -> str | None:
        """Return an error text if a project file would redirect the user's key, else None.

        The project file sets the base URL, and the key comes from elsewhere.
        """
        url, key = self.layers.get("base_url"), self.layers.get("api_key")
        if url is None or key is None or url.kind != "project" or key.kind == "project":
            return None
        return (
            f"{self.origin('base_url')}: a project file may not send the key from {self.origin('api_key')} "
            "to another base_url; to allow it, pass --base-url or set OPENAI_BASE_URL"
        )

    @property
    def stranger(self) -> str | None:
        """Return an error text if a project file names the judge service, else None.

        That service would get the token, and its verdicts would count.
        """
        for name in ("service", "executor"):
            layer = self.layers.get(name)
            if layer and layer.kind == "project" and self.settings.service == layer.values[name]:
                return (
                    f"{self.origin(name)}: a project file may not name a judge service; to allow it, pass"
                    " --executor or set AGENT_EXECUTOR"
                )
        return None

    @property
    def command(self) -> str | None:
        """Return an error text if a project file names a program to run, else None.

        A project file may come with another person's repository.
        """
        layer = self.layers.get("provider")
        if (
            layer is None
            or layer.kind != "project"
            or not str(layer.values["provider"]).startswith("command:")
        ):
            return None
        return (
            f"{self.origin('provider')}: a project file may not name a program to run; to allow it, pass"
            " --provider or set AGENT_PROVIDER"
        )


def load(flags: Mapping[str, object], *, offline: bool = False) -> Resolved:
    """Return the settings as seen from the current directory. A flag that is None or empty counts as absent.

    Raises UsageError for an unknown key, a value out of range, or a file that is not TOML. Also raises
    UsageError for a project file that redirects the user's key, or names a program or a judge service. An
    `offline` command contacts nobody, so the key and the program are not checked for it.
    """
    layers = [_flags(flags), _environment()]
    layers += [_file(path, "project") for path in map(Path, PROJECT_FILES) if path.is_file()]
    user = platformdirs.user_config_path(APPLICATION) / "config.toml"
    layers += [_file(user, "user")] if user.is_file() else []
    taken = {name: layer for layer in reversed(layers) for name in layer.values}
    try:
        settings = Settings.model_validate({name: layer.values[name] for name, layer in taken.items()})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise UsageError(_invalid(str(first["loc"][0]), first["msg"], taken)) from error
    resolved = Resolved(settings, taken)
    for refusal in (resolved.redirect, resolved.command):
        if refusal and not offline:
            raise UsageError(refusal)
    if resolved.stranger:
        raise UsageError(resolved.stranger)
    return resolved


def kernel_settings() -> KernelSettings:
    """Return the kernel settings from the environment. Raises UsageError for an invalid value."""
    try:
        return KernelSettings()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        name = f"AGENT_{str(first['loc'][0]).upper()}"
        raise UsageError(f"{name}: {first['msg']} (got {os.environ.get(name, '')[:80]!r})") from error


def child_environment() -> dict[str, str]:
    """Return the environment for a judging process.

    Its variables locate programs and GPUs, and none of them is a secret.
    """
    # Threads that spin while they wait would take processor time from concurrent evaluations.
    known = {"OMP_WAIT_POLICY": "passive", **os.environ}
    return {
        name: value
        for name, value in known.items()
        if _matches(name, _CHILD_ALLOWED) and not _matches(name.upper(), _SECRET)
    }


def candidate_environment() -> dict[str, str]:
    """Return the environment for a candidate.

    It has fewer variables than the environment of a judging process, and none names a directory of the user.
    """
    known = child_environment()
    allowed = {name: value for name, value in known.items() if _matches(name, _CANDIDATE_ALLOWED)}
    return _AT_A_TERMINAL | allowed


def forget_secrets() -> None:
    """Remove variables that look like secrets from this process's environment, and so from its children's."""
    for name in [name for name in os.environ if _matches(name.upper(), _SECRET)]:
        del os.environ[name]


def with_package(environment: Mapping[str, str]) -> str:
    """Return the PYTHONPATH on which a child finds this package, even in a checkout that is not installed."""
    parent = str(Path(__file__).resolve().parents[1])
    return os.pathsep.join(filter(None, (parent, environment.get("PYTHONPATH"))))


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _flags(flags: Mapping[str, object]) -> Layer:
    given = {name: value for name, value in flags.items() if value is not None and value != ""}
    return Layer("flag", given, {name: f"--{name.replace('_', '-')}" for name in given})


def _environment() -> Layer:
    shared = {name: variable for name, variable in _SHARED_VARIABLES.items() if os.environ.get(variable)}
    own = EnvSettingsSource(Settings)()
    values = {name: os.environ[variable] for name, variable in shared.items()} | own
    return Layer("environment", values, shared | {name: f"AGENT_{name.upper()}" for name in own})


def _file(path: Path, kind: Literal["project", "user"]) -> Layer:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from error
    for table in ("tool", "agent") if path.name == "pyproject.toml" else ():
        values = values.get(table, {})
        if not isinstance(values, dict):
            raise UsageError(f"{path}: {table} is not a table; put the settings under [tool.agent]")
    for key in values:
        if key not in Settings.model_fields:
            near = get_close_matches(key, Settings.model_fields, n=1)
            hint = (
                f"did you mean {near[0]!r}?"
                if near
                else f"known settings: {', '.join(Settings.model_fields)}"
            )
            raise UsageError(f"{path}: unknown setting {key!r}; {hint}")
    return Layer(kind, values, dict.fromkeys(values, str(path)))


def _invalid(name: str, message: str, taken: Mapping[str, Layer]) -> str:
    layer = taken[name]
    place = layer.places[name]
    where = place if layer.kind in ("flag", "environment") else f"{place}: {name}"
    shown = "" if name == "api_key" else f" (got {str(layer.values[name])[:80]!r})"
    return f"{where}: {message.removeprefix('Value error, ')}{shown}"
