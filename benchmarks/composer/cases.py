"""Which problems, and the composed file of each, which is kept in a folder of work by what it is made of.

The rule: every fifth problem of levels 1 and 2, and all of level 3; the rest only where it is named.
"""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import agent.compose
from agent import problems
from agent.compose import Declined
from agent.errors import AgentError
from agent.providers import composed as composed_provider
from agent.records import LibraryOps, Problem, Trace
from tests.foreign import problems as checkout

EVERY = 5


class Case(NamedTuple):
    """A problem, and the folder that keeps what was made for it.

    `arch`: of the GPU that it is made for. `library_ops`: as the option of `agent run`.
    """

    id: str
    address: str
    root: Path
    work: Path
    arch: str | None = None
    library_ops: LibraryOps = "gemm-conv"

    @property
    def reference(self) -> Path:
        return problems.path(self.address, self.root)

    @property
    def digest(self) -> str:
        return checkout.digest(self.address, self.root)

    @property
    def file(self) -> Path:
        """Where its composed file lies, once there is one."""
        return self.work / f"{self.id.replace('/', '-')}-{self.digest}-{self.made}.py"

    @property
    def text(self) -> str:
        """Of the composed file: what was found about it holds for the same text of a later composer."""
        return hashlib.sha256(self.file.read_bytes()).hexdigest()[:16] if self.file.is_file() else ""

    def about(self) -> dict[str, str]:
        """What a record is about: the reference, the composer and what that wrote."""
        return {"id": self.id, "digest": self.digest, "code": code(), "text": self.text}

    @property
    def made(self) -> str:
        """What the file was made by."""
        return f"{code()}{self.arch or ''}" + ("-none" if self.library_ops == "none" else "")


def chosen(
    root: Path, work: Path, only: list[str], arch: str | None = None, library_ops: LibraryOps = "gemm-conv"
) -> list[Case]:
    """Those of the rule, or those that are named: `level2`, `2/5`."""
    work.mkdir(parents=True, exist_ok=True)
    found = []
    for level in (1, 2, 3):
        for address in checkout.addresses(root, (level,)):
            number = int(address.partition("/")[2])
            if checkout.chosen(address, only) if only else level == 3 or number % EVERY == 0:
                found.append(Case(checkout.identity(address), address, root, work, arch, library_ops))
    return found


@cache
def code() -> str:
    """Changes with the composer."""
    folder = Path(agent.compose.__file__).parent
    texts = b"\0".join(file.read_bytes() for file in sorted(folder.glob("*.*")))
    return hashlib.sha256(texts).hexdigest()[:8]


def loaded(case: Case) -> Problem:
    """The problem; its trace is kept. Raises AgentError."""

    def remembered(source: str, make: object) -> Trace:
        kept = case.work / f"{case.id.replace('/', '-')}-{case.digest}.trace.json"
        if not kept.is_file():
            assert callable(make)
            kept.write_text(make().model_dump_json(), encoding="utf-8")
        return Trace.model_validate_json(kept.read_text(encoding="utf-8"))

    return problems.load(case.address, kernelbench_root=case.root, remembered=remembered)


def _answer(problem: Problem, case: Case) -> str:
    """What `agent run` answers without an endpoint: a shipped kernel, else a composed file."""
    found = composed_provider.shipped(problem, case.arch)
    if found:
        return found.source
    return agent.compose.compose(problem, case.arch, own_products=case.library_ops == "none")


def composed(case: Case) -> str:
    """An empty text where the file lies at its place, else the reason why there is none."""
    refused = case.file.with_suffix(".reason.json")
    if case.file.is_file():
        return ""
    if refused.is_file():
        return str(json.loads(refused.read_text(encoding="utf-8")))
    try:
        text = _answer(loaded(case), case)
    except (Declined, AgentError) as why:
        reason = str(why).replace(f"{case.root}/", "")
        refused.write_text(json.dumps(reason), encoding="utf-8")
        return reason
    case.file.write_text(text, encoding="utf-8")
    return ""
