"""Exported kernels on a real GPU: `python -m tests.gpu.exported`, by a Python that has torch itself.

Each kernel in each format is put into a fresh environment that has this Python's torch and not us, built by
torch alone, and compared with its reference on the GPU; operators are traced by their fakes as well. Prints
a line for each and exits 1 where one is wrong.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from agent.api import Run
from agent.doors.package import FORMATS, Format, export, origins
from agent.errors import UsageError
from agent.kernels import sources

WHOLE = ("recorded/group_norm", "group_norm 90a")
"""What is tried in every format; the others, which differ in their CUDA code alone, as a folder."""
USED = """
import importlib, importlib.util, sys
sys.path[:0] = [sys.argv[1]]
assert importlib.util.find_spec("agent") is None, "the environment has us"
import torch
package = importlib.import_module(sys.argv[2])
reference = importlib.import_module(sys.argv[2] + ".reference")
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
with torch.device("cuda"):
    model = reference.Model(*reference.get_init_inputs()).eval()
    inputs = [one.cuda() if isinstance(one, torch.Tensor) else one for one in reference.get_inputs()]
    modules = [package.ModelNew(*reference.get_init_inputs())]
    if sys.argv[3] != "folder":
        modules.append(importlib.import_module(sys.argv[2] + ".operator").Kernel())
for module in modules:
    module.load_state_dict(model.state_dict())
if sys.argv[3] != "folder":
    modules.append(torch.compile(modules[-1], fullgraph=True))
with torch.no_grad():
    wanted = model(*inputs)
    for module in modules:
        torch.testing.assert_close(module(*inputs), wanted, rtol=1e-3, atol=1e-3)
print(package.VERDICT["status"])
"""
"""The tolerance tells a wrong kernel, not a bad one: how exact it is stands in its verdict."""
OPS = """
import torch
_OPS_NAME = "_{name}_cuda_abcdefg"
ops = getattr(torch.ops, _OPS_NAME)
def add_op_namespace_prefix(op_name):
    return f"{{_OPS_NAME}}::{{op_name}}"
"""


def fresh(folder: Path) -> str:
    """The interpreter of a new environment that has this one's torch."""
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", str(folder)], check=True)
    # Where this Python is itself a virtual environment, the system's packages are not its own.
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "torch.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")
    return str(folder / "bin" / "python")


def check(python: str, origin: origins.Origin, form: Format, folder: Path) -> str:
    """Empty, or what went wrong."""
    project, site, name = folder / "project", folder / "site", "exported_kernel"
    export(origin, project, form, name)
    if form == "hf-kernels":
        site = project / "torch-ext"
        (site / name / "_ops.py").write_text(OPS.format(name=name))
    else:
        pip = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
        subprocess.run([*pip, "--target", str(site), str(project)], check=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AGENT_", "PYTHON"))}
    kept["TORCH_EXTENSIONS_DIR"] = str(folder / "built")
    done = subprocess.run(
        [python, "-P", "-c", USED, str(site), name, form],
        cwd=folder, env=kept, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stderr[-1500:]


def exportable() -> dict[str, origins.Origin]:
    """A run's best, and the shipped kernels with a verdict, with the path for a GPU where there is one."""
    found = {"recorded/group_norm": origins.of_run(Run.open("recorded/group_norm"))}
    for name in sources.NAMES:
        for arch in dict.fromkeys((None, sources.OWN_PATHS.get(name))):
            try:
                found[f"{name} {arch or ''}".strip()] = origins.of_kernel(name, arch)
            except UsageError as error:
                sys.stdout.write(f"left out: {name} {arch or 'portable'}: {error}\n")
    return found


def main() -> int:
    wrong = 0
    with tempfile.TemporaryDirectory() as work:
        python = fresh(Path(work) / "environment")
        for number, (name, origin) in enumerate(exportable().items()):
            for form in FORMATS if name in WHOLE else FORMATS[:1]:
                said = check(python, origin, form, Path(work) / f"{number}-{form}")
                wrong += bool(said)
                sys.stdout.write(f"{'wrong' if said else 'right'}: {name}, {form}\n{said}")
                sys.stdout.flush()
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
