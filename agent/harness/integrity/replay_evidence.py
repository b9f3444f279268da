"""Interpretation of the replay of one call, on fresh inputs and on the call's own inputs."""

from collections.abc import Sequence
from typing import NamedTuple

from agent.emulator.replay import calls, device_library, events, host_words, operators
from agent.emulator.replay.events import Event, Forged
from agent.harness.integrity import replay_findings
from agent.harness.integrity.replay_check import Evidence, Forgery, Recorded, Replay
from agent.harness.integrity.replay_findings import NOT_NEEDED, UNREPEATABLE
from agent.harness.task import faults
from agent.records import Finding

_READ = "_local_scalar_dense"
"""Operator behind `Tensor.item`, which reads one element."""
_PASSED_SHARE = 64
"""Minimum number of output elements per word that the host derived from the call's inputs."""


class Outcome(NamedTuple):
    """Outcome of replaying a call's kernels on inputs that were drawn for the replay."""

    findings: list[Finding]
    """Findings that the kernels do not account for the result; empty if they do."""
    may_be_stale: bool = False
    """True if the error may come from a scalar that the host had read back from the call's own inputs."""
    blind: bool = False
    """True if the call's result on its own inputs would be right on the replay's inputs as well."""


def on_fresh_inputs(recorded: Recorded, evidence: Evidence) -> Outcome:
    """Return the outcome of replaying the call on fresh inputs."""
    try:
        refusal, known = None, list[Event]()
        for earlier in calls.EARLIER:
            needed = calls.alone(recorded.segments, recorded.chosen, earlier=earlier)
            if needed == known:
                continue
            if earlier == "none" and refusal is not None and refusal.kind != UNREPEATABLE:
                break
            known = needed
            attempt = Replay(evidence, recorded, needed)
            if not attempt.program.launches:
                return Outcome([faults.NO_LAUNCH])
            never = evidence.on_a_gpu.refused(attempt.launched()) if evidence.on_a_gpu else []
            if never:
                return Outcome(never)
            refusal = attempt.refusal(recorded.fresh_seed)
            if refusal is None:
                return _where_right(attempt, recorded, evidence)
            if refusal.kind == NOT_NEEDED or attempt.hung:
                return Outcome([refusal])
        return Outcome([refusal] if refusal else [], may_be_stale=not evidence.only_fresh)
    except (Forged, device_library.NotLoadable) as error:
        return Outcome([replay_findings.unusable(error)])
    except Forgery as error:
        return Outcome([faults.protocol_violation(f"the process that repeated its kernels {error}")])


def on_its_own_inputs(recorded: Recorded, evidence: Evidence) -> bool:
    """Return True if the kernels are right on the call's own inputs and the host derives few values.

    The values that the host reads back have to come from kernels, not from torch operators.
    """
    if _computes_beside(recorded.segments[recorded.chosen].call, evidence):
        return False
    needed = calls.alone(recorded.segments, recorded.chosen, earlier="all")
    try:
        attempt = Replay(evidence, recorded, needed)
        few = _few_passed(attempt, recorded, evidence)
        return few and attempt.refusal(recorded.inputs_seed) is None
    except (Forged, device_library.NotLoadable, Forgery):
        return False


def _computes_beside(call: Sequence[Event], evidence: Evidence) -> bool:
    """Return True if a torch operator that is not allowed worked on floating-point tensors in the call."""
    return any(
        isinstance(event, events.Operator)
        and event.name != _READ
        and not operators.allowed(event.name, evidence.setting)
        and any("float" in operators.dtype(tensor) for tensor in operators.tensors(event.given))
        for event in call
    )


def _where_right(attempt: Replay, recorded: Recorded, evidence: Evidence) -> Outcome:
    """Return the outcome of a replay whose result is right.

    Some inputs, such as very small values, all give one result. The host must then pass few values as well.
    """
    if not attempt.is_blind():
        return Outcome([])
    few = _few_passed(attempt, recorded, evidence)
    return Outcome([] if few else [attempt.foreign()], blind=True)


def _few_passed(attempt: Replay, recorded: Recorded, evidence: Evidence) -> bool:
    """Return True if the host passes the kernels few values that depend on the call's inputs."""
    elements = sum(output.elements for output in attempt.program.outputs)
    passed = host_words.passed(recorded.segments, recorded.chosen, recorded.others)
    # If there are no other calls to compare with, every word counts, including constant ones.
    return passed * _PASSED_SHARE <= elements and (not recorded.others or passed <= evidence.most_words)
