"""A judge, and an oracle, that say where their time goes, for `benchmarks.verdict_profile`.

Every command that one of the judge's processes answers is a span, and so is each of the functions below in
the judge, the oracle and the workers. All of them are announced with the verdict, as JSON behind SPANS. Work
on the GPU is waited for around each function: under the profile a verdict takes a little longer than else.
"""

import json
import shutil
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from agent.harness.judge import evaluate
from agent.harness.task.job import Announce, Job
from agent.records import Evaluation
from agent.sandbox import Child, Limits
from benchmarks import timeline

SPANS = "spans: "
_KEPT_BYTES = 4 << 20
_NOT_TOLD = {"do", "seed", "source", "stem"}
_WORKER = """
import timeline
timeline.watch(memory_guards, "poison", "_free_blocks")
timeline.watch(transport.SharedMemory, "inputs", "hand_in", "answer")
timeline.watch(timing.Timer, "__init__", "timed")
timeline.watch(timing, "repeated")
timeline.watch(profiled, "kernels")
timeline.watch(torch.cuda, "empty_cache")
"""
_JUDGE = (
    "agent.harness.judge.evaluate:backend_for", "agent.build.compiler:run", "agent.gpu_build:prepare",
    "agent.gpu_build:extension", "agent.gpu_build.gpu:present", "agent.harness.backends.gpu_lock:listed",
    "agent.harness.backends.load_inline_build:nvcc_version",
    "agent.harness.backends.comparison_kernels:compiled",
)  # fmt: skip
_ORACLE = {
    "agent.harness.truth.reference:Reference":
        "inputs native truth perturb in_float64 draw _restored _chosen _in_sequence",
    "agent.harness.truth.tolerance:Expected": "__init__ compare differs obstacle wrong",
    "agent.harness.truth.limits:Limits": "__init__",
    "agent.harness.oracle.state:OracleState": "make_room",
    "agent.harness.oracle.transport:SharedMemory": "give _make refresh outputs changed written_bands",
    "agent.harness.oracle.baselines:Baselines":
        "prepare _compiled refresh recall doubtful timed slope take _alone",
    "agent.harness.oracle.timing_commands": "card",
    "torch.cuda": "empty_cache",
}  # fmt: skip
_trial: Any = import_module("agent.harness.trial.trial")
_BEGUN = time.monotonic()
_spans: list[tuple[str, str, float, float]] = []
"""Process, what, when it began by the monotonic clock, seconds."""


def main(argv: list[str]) -> None:
    """As the module that it stands for: a judge's arguments are fewer than an oracle's."""
    if len(argv) > 2:
        _oracle(argv)
    else:
        _judge(argv)


def _judge(argv: list[str]) -> None:
    _record_commands()
    _watch_functions()
    _trial.ORACLE = __spec__.name if __spec__ else __name__
    judged = evaluate.evaluate

    def profiled(
        job: Job, announce: Announce, decided: evaluate.Decided = lambda verdict: None
    ) -> Evaluation:
        try:
            return judged(job, announce, decided)
        finally:
            spans = [(who, what, begun - _BEGUN, seconds) for who, what, begun, seconds in _spans]
            announce(SPANS + json.dumps(sorted(spans, key=lambda span: span[2])))

    evaluate.evaluate = profiled
    evaluate.main(argv)


def _record_commands() -> None:
    begin, asked, end = Child.__init__, Child.ask, Child.kill
    names: dict[int, str] = {}

    def begun(self: Child, argv: list[str], **given: Any) -> None:
        if _trial.ORACLE in argv:
            name = "oracle"
        elif "worker.py" in argv:
            name = "noop" if given["box"].folder.name == "nothing" else "candidate"
        else:
            name = Path(argv[-1]).name
        limits = (given.pop("limits", None) or Limits())._replace(kept_bytes=_KEPT_BYTES)
        since = time.monotonic()
        begin(self, argv, limits=limits, **given)
        names[id(self)] = name
        _spans.append(("judge", f"starting {name}", since, time.monotonic() - since))

    def ask(self: Child, message: dict[str, Any], *args: Any, **given: Any) -> dict[str, Any]:
        since = time.monotonic()
        try:
            return asked(self, message, *args, **given)
        finally:
            told = {
                k: v for k, v in message.items() if k not in _NOT_TOLD and isinstance(v, (str, int, bool))
            }
            words = " ".join([str(message.get("do")), *(f"{k}={v}" for k, v in told.items() if v)])
            _spans.append((names[id(self)], words[:100], since, time.monotonic() - since))

    def kill(self: Child) -> None:
        since = time.monotonic()
        end(self)
        name = names.pop(id(self), None)
        if name is None:
            return
        _spans.append(("judge", f"ending {name}", since, time.monotonic() - since))
        for line in self.log.splitlines():
            mark, *rest = line.split()
            if mark == timeline.MARK and len(rest) == 3:
                _spans.append((f"{name}'s", rest[0], float(rest[1]), float(rest[2])))

    Child.__init__, Child.ask, Child.kill = begun, ask, kill  # type: ignore[method-assign]


def _watch_functions() -> None:
    def watched(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def timed(*args: Any, **given: Any) -> Any:
            since = time.monotonic()
            try:
                return function(*args, **given)
            finally:
                who = "judge" if threading.current_thread() is threading.main_thread() else "judge, beside"
                _spans.append((who, f"{name} of {owner.__name__}", since, time.monotonic() - since))

        setattr(owner, name, timed)

    for place in _JUDGE:
        module, name = place.split(":")
        watched(import_module(module), name)
    workspace: Any = import_module("agent.harness.backends.workspace")
    noop_worker: Any = import_module("agent.harness.timing.noop_worker")
    furnish = workspace.furnish

    def furnished(folder: Path, source: str, backend: Any) -> None:
        furnish(folder, source, backend)
        shutil.copy(timeline.__file__, folder)
        worker = folder / "worker.py"
        head, mark, tail = worker.read_text().rpartition('if __name__ == "__main__":')
        worker.write_text(f"{head}{_WORKER}\n{mark}{tail}")

    workspace.furnish = noop_worker.furnish = furnished


def _oracle(argv: list[str]) -> None:
    for place, names in _ORACLE.items():
        module, _, name = place.partition(":")
        owner = import_module(module)
        timeline.watch(getattr(owner, name) if name else owner, *names.split())
    import_module("agent.harness.oracle.server").main(argv)
