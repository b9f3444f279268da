"""Export of a verified kernel as a separate package, which needs torch and not this project.

Only verified kernels are exported. The judged file is exported unchanged, with verdict and scope beside it.
`folder` holds ModelNew. `torch-library` adds an operator with its fake, and with autograd if the gradients
were judged. `hf-kernels` holds ModelNew and the operator in the layout of Hugging Face's kernel builder.
"""

import json
import keyword
import re
from pathlib import Path
from string import Template
from typing import Literal

from agent.doors.package.origins import Origin
from agent.errors import EnvironmentFault, UsageError
from agent.records import TensorSpec

Format = Literal["folder", "torch-library", "hf-kernels"]
FORMATS: tuple[Format, ...] = ("folder", "torch-library", "hf-kernels")
_TEMPLATES = Path(__file__).parent / "templates"
_HUB_NAME = re.compile(r"[a-z][-a-z0-9]*[a-z0-9]")
_ARCHITECTURE = re.compile(r"code=sm_(\d+)(\d[af]?)\b")
"""Pattern of the flag with which a candidate tells nvcc its target GPU."""


def export(origin: Origin, folder: Path, form: Format, name: str | None = None) -> list[Path]:
    """Write a kernel to the new `folder` and return the written files.

    Raises UsageError for an invalid name or a folder that is not empty.
    """
    name = name or named(origin.name)
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"--name {name!r} is no name of a Python package")
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} holds something already; name a new folder")
    files = _hub(origin, name) if form == "hf-kernels" else _package(origin, name, form)
    try:
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise EnvironmentFault(f"{folder} cannot be written: {error.strerror}") from error
    return [folder / path for path in files]


def named(problem: str) -> str:
    """Return the package name of a problem: `level1/group_norm` becomes `group_norm_kernel`."""
    words = re.sub(r"\W+", "_", problem.rpartition("/")[2], flags=re.ASCII).strip("_").lower()
    return f"{words if words[:1].isalpha() else f'k{words}'}_kernel"


def _package(origin: Origin, name: str, form: Format) -> dict[str, str]:
    """Return the files of a setuptools project."""
    package = f"src/{name}"
    texts = _texts(origin, name) | {"package": package}
    files = {
        "pyproject.toml": _filled("pyproject.toml", texts),
        "README.md": _filled("README.md", texts),
        f"{package}/__init__.py": _filled("init.py", texts),
        **_kernel(origin, package),
    }
    if form == "torch-library":
        within = {"import_ops": "", "operator": f'"{name}::forward"', "ops": f"torch.ops.{name}"}
        files[f"{package}/operator.py"] = _filled("operator.py", texts | _of_operator(origin) | within)
    return files


def _hub(origin: Origin, name: str) -> dict[str, str]:
    """Return files for Hugging Face's kernel builder, which adds `_ops.py` with the operator's namespace."""
    hub_name = name.replace("_", "-")
    if not _HUB_NAME.fullmatch(hub_name):
        raise UsageError(
            f"{hub_name!r} is no name of a kernel on the Hub: two or more small letters, digits and dashes, "
            "a letter first and no dash last; choose another --name"
        )
    package = f"torch-ext/{name}"
    found = _ARCHITECTURE.findall(origin.source)
    only = json.dumps(sorted({f"{major}.{minor}" for major, minor in found}))
    texts = _texts(origin, name) | {
        "package": package,
        "hub_name": hub_name,
        "license": origin.license,
        "capabilities": f"cuda_capabilities = {only}\n" if found else "",
    }
    within = {
        "import_ops": "from ._ops import add_op_namespace_prefix, ops\n",
        "operator": 'add_op_namespace_prefix("forward")',
        "ops": "ops",
    }
    return {
        "build.toml": _filled("build.toml", texts),
        "flake.nix": _filled("flake.nix", texts),
        "CARD.md": _filled("CARD.md", texts) + _filled("README.md", texts),
        f"{package}/__init__.py": _filled("init_of_hub.py", texts),
        f"{package}/operator.py": _filled("operator.py", texts | _of_operator(origin) | within),
        **_kernel(origin, package),
    }


def _kernel(origin: Origin, package: str) -> dict[str, str]:
    return {
        f"{package}/candidate.py": origin.source,
        f"{package}/reference.py": origin.problem.source,
        f"{package}/verdict.json": origin.verdict,
    }


def _texts(origin: Origin, name: str) -> dict[str, str]:
    return {
        "name": name,
        "problem": origin.problem.name,
        "found": origin.found,
        "scope": "\n".join(f"- {line}" for line in origin.scope),
        "envelope": f"\n{origin.envelope}\n" if origin.envelope else "",
        "inputs": "\n".join(f"- {_words(one)}" for one in origin.problem.trace.inputs),
    }


def _of_operator(origin: Origin) -> dict[str, str]:
    """Return the operator file's extra texts: non-tensor inputs, and the names of parameters."""
    trace = origin.problem.trace
    given = [None if isinstance(one, TensorSpec) else {"value": one} for one in trace.inputs]
    return {
        "given": repr(json.loads(json.dumps(given))),
        "state": repr(tuple(one.name for one in trace.state)),
        "differentiable": repr(origin.differentiable),
    }


def _words(one: object) -> str:
    return f"{one.dtype} {tuple(one.shape)}" if isinstance(one, TensorSpec) else f"the value {one!r}"


def _filled(template: str, texts: dict[str, str]) -> str:
    return Template((_TEMPLATES / f"{template}.in").read_text(encoding="utf-8")).substitute(texts)
