"""Writes docs/feedback.md: `python -m tests.diagnosis.examples`. Every text in it is from a run of its case.

*Before* is what agents commonly send to the model: the last lines of the build's log or of the traceback, or
the largest difference as one number. *After* is the feedback of this project on the same candidate.
"""

import ast
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent import config, feedback, prompts
from agent.build.build_request import BuildRequest
from agent.emulator.compile import toolchain
from agent.emulator.compile.build import extension
from agent.records import Attempt, Candidate, Evaluation
from benchmarks import storage

from . import labels, score
from .labels import Case

PAGE = storage.ROOT / "docs" / "feedback.md"
TAIL_LINES = 15
"""What a public agent commonly keeps of a log."""
EXAMPLES = (
    "blind/not_declared",
    "blind/float_against_double",
    "blind/shared_of_two_types",
    "blind/double_pointer",
    "blind/stream_without_header",
    "blind/tensor_for_number",
    "blind/group_norm_affine_by_group",
    "blind/l2_normalize_eps_added",
    "blind/cumsum_carry_forgotten",
    "blind/embedding_first_position",
    "unseen/window_both_sides_by_size",
    "closed/sdpa_online_not_rescaled",
)
HEAD = f"""\
# Feedback, before and after

Written by `python -m tests.diagnosis.examples` from runs of the cases named here (`tests/diagnosis/corpus`).
*Before* is what agents commonly send back to the model: the last {TAIL_LINES} lines of the log, or a number.
*After* is what this project sends, beside the code it belongs to; of several findings the first. The logs are
those of the emulator's build; directories are taken out of both.
"""
_DIRECTORIES = re.compile(r"(?<![\w<])/(?:[\w.+-]+/)+")
_FRAME = 'File "candidate.py", line'
"""A traceback that begins in the candidate has no heading."""
_POSITIONS = ("name", "cpp_sources", "cuda_sources", "functions")
_VALUES = re.compile(r"got (\S+?), expected (\S+)")


def main() -> int:
    """Writes the page; exits 1 where an example has nothing to show before."""
    known = {str(case): case for case in labels.cases()}
    parts = [HEAD]
    for number, name in enumerate(EXAMPLES, 1):
        parts.append(_example(number, known[name]))
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
    PAGE.write_text("\n".join(parts), encoding="utf-8")
    return 0


def _example(number: int, case: Case) -> str:
    evaluation = score.evaluated(case)
    candidate = Candidate(problem=case.problem, source=case.source)
    first = evaluation.model_copy(update={"findings": evaluation.findings[:1]})
    text = feedback.on_evaluation(Attempt(number=1, candidate=candidate, evaluation=first)).text
    return "\n".join(
        [
            f"## {number}. {case.about}",
            "",
            f"`{case}`, reference `{case.problem}`.",
            "",
            "Before:",
            "",
            _fenced(before(case, evaluation)),
            "",
            "After:",
            "",
            _fenced(text),
            "",
        ]
    )


def _fenced(text: str) -> str:
    return prompts.fenced(_DIRECTORIES.sub("", text), "text")


def before(case: Case, evaluation: Evaluation) -> str:
    """The tail of the log, or one number. Raises ValueError where the evaluation holds neither."""
    if evaluation.stage == "build":
        return _tail(_build_log(case.source))
    evidence = "\n".join(found.evidence for found in evaluation.findings if found.evidence)
    if "Traceback" in evidence or _FRAME in evidence:
        return _tail(evidence)
    differences = [abs(float(got) - float(expected)) for got, expected in _VALUES.findall(evidence)]
    if not differences:
        raise ValueError(f"{case}: the findings hold no values and no log")
    return f"Output mismatch: max_difference = {max(differences):.6g}"


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-TAIL_LINES:])


def _build_log(source: str) -> str:
    """What the compilers said, this machine's paths taken out."""
    tools = toolchain.prepare(config.load({}, offline=True).settings.cache_dir)
    with tempfile.TemporaryDirectory() as place:
        return extension(tools, build_request(source), Path(place)).log


def build_request(source: str) -> BuildRequest:
    """The candidate's load_inline call, read and not run: constants, and names of constants."""
    tree = ast.parse(source)
    values = dict(_constants(tree))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    call = next(node for node in calls if isinstance(node.func, ast.Name) and node.func.id == "load_inline")
    given = {name: _value(node, values) for name, node in zip(_POSITIONS, call.args, strict=False)}
    given |= {str(word.arg): _value(word.value, values) for word in call.keywords if word.arg != "verbose"}
    for key in ("cpp_sources", "cuda_sources"):
        given[key] = [given[key]] if isinstance(given[key], str) else given[key]
    return BuildRequest.model_validate(given | {"candidate_source": source})


def _constants(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                yield node.targets[0].id, ast.literal_eval(node.value)
            except ValueError:
                continue


def _value(node: ast.expr, values: dict[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.List):
        return [_value(entry, values) for entry in node.elts]
    return ast.literal_eval(node)


if __name__ == "__main__":
    sys.exit(main())
