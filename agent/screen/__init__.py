"""Static checks on a candidate before it is built: early feedback to the model, never the only defence.

`check` reads the syntax trees of the candidate and of the C++ that it passes to `load_inline`. Findings of
severity `error` refuse the candidate. No code of the candidate runs. Comments, docstrings and messages never
trigger a rule, nor does code under `if __name__ == "__main__":`, which does not run when it is judged.
The builder checks compiler flags; the harness checks that kernels really run and matter.
"""

import ast
from collections.abc import Iterable, Sequence

from agent.python_source import source_lines, syntax_tree
from agent.records import Candidate, Finding, Location
from agent.screen.host_rules import Permits
from agent.screen.inputs import differing_inputs
from agent.screen.names import Names
from agent.screen.rules import violations
from agent.screen.seen import Seen
from agent.screen.sources import source_violations, text_violations

__all__ = ["check", "compiled_text", "defines_target"]

TARGET = "ModelNew"


def _any_operator(name: str) -> bool:
    """Permit every operator of torch."""
    return True


def check(
    reference_source: str, candidate: Candidate, permits: Permits = _any_operator
) -> tuple[Finding, ...]:
    """Return the findings on the candidate's text, errors first, then by line; empty if there are none.

    `permits` says which operators of torch C++ may call.

    Kinds: `syntax-error`, `no-model-new`, `no-cuda-kernel`, `missing-import`, `dynamic-code`,
    `forbidden-import`, `extra-dependency`, `process-control`, `patches-module`, `introspection`,
    `other-compiler`, `file-access`, `environment-write`, `global-setting`, `hidden-library-call`,
    `load-time-code`, and the warning `own-inputs-differ`.
    """
    try:
        return _findings(_seen(reference_source, candidate.source, permits), candidate.source)
    except SyntaxError as error:
        location = Location(line=error.lineno, text=(error.text or "").strip()[:200] or None)
        return (Finding(kind="syntax-error", message=f"Not valid Python: {error.msg}.", location=location),)
    except RecursionError:
        words = "An expression is nested too deeply to be read; split it."
        return (Finding(kind="syntax-error", message=words),)


def compiled_text(
    texts: Sequence[str],
    candidate_source: str,
    permits: Permits = _any_operator,
    definitions: Sequence[str] = (),
) -> tuple[Finding, ...]:
    """Return the findings on the texts of one build, which may have been made at run time.

    `definitions` are macros that flags define, as lines of C++.
    """
    return _findings(text_violations(texts, candidate_source, permits, definitions), candidate_source)


def _seen(reference_source: str, source: str, permits: Permits) -> list[Seen]:
    tree = syntax_tree(source)
    names = Names(tree)
    missing = [] if defines_target(tree) else [Seen("no-model-new", f"The file defines no class {TARGET}.")]
    return [
        *missing,
        *violations(tree, names),
        *source_violations(tree, names, source, permits),
        *differing_inputs(reference_source, tree),
    ]


def defines_target(tree: ast.Module) -> bool:
    """Return True if importing the file binds `ModelNew`, by a class statement or an assignment."""
    for node in _module_level(tree.body):
        if isinstance(node, ast.ClassDef) and node.name == TARGET:
            return True
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == TARGET for target in targets):
            return True
    return False


def _module_level(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            blocks = [node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])]
            for block in (*blocks, *(handler.body for handler in getattr(node, "handlers", []))):
                yield from _module_level(block)


def _findings(seen: Iterable[Seen], source: str) -> tuple[Finding, ...]:
    """Merge equal kinds and messages into one finding, located at the first place, with their count."""
    lines = source_lines(source)
    merged: dict[tuple[str, str], Finding] = {}
    for item in sorted(seen, key=lambda item: (item.severity != "error", item.line or 0)):
        earlier = merged.get((item.kind, item.message))
        if earlier:
            merged[item.kind, item.message] = earlier.model_copy(update={"count": earlier.count + 1})
            continue
        text = lines[item.line - 1].strip()[:200] if item.line else None
        merged[item.kind, item.message] = Finding(
            kind=item.kind,
            message=item.message,
            location=Location(line=item.line, text=text) if item.line else None,
            severity=item.severity,
        )
    return tuple(merged.values())
