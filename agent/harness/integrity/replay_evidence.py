"""What repeating the kernels of one call says: on inputs of the judge's, and on the call's own."""

from typing import NamedTuple

from agent.emulator.replay import calls, device_library, host_words
from agent.emulator.replay.events import Event, Forged
from agent.harness.integrity import replay_findings
from agent.harness.integrity.replay_check import Evidence, Forgery, Recorded, Replay
from agent.harness.integrity.replay_findings import NOT_NEEDED, UNREPEATABLE
from agent.harness.task import faults
from agent.records import Finding

_PASSED_SHARE = 64
"""At the inputs of the record the output has this many elements for each word that the host made of them."""


class Outcome(NamedTuple):
    """What came of a call's kernels on inputs that were drawn for the replay."""

    findings: list[Finding]
    """Why they do not account for the result; empty where they do."""
    may_be_stale: bool = False
    """Whether all that is wrong may be a scalar that the host read back from other inputs."""
    blind: bool = False
    """Whether its kernels are right there, and would be if they had brought the call's own result along."""


def on_fresh_inputs(recorded: Recorded, evidence: Evidence) -> Outcome:
    """Whether the candidate's own kernels account for what the call gives."""
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
    """Whether they account for it there, where the host makes little of the inputs."""
    needed = calls.alone(recorded.segments, recorded.chosen, earlier="all")
    try:
        attempt = Replay(evidence, recorded, needed)
        few = _few_passed(attempt, recorded, evidence)
        return few and attempt.refusal(recorded.inputs_seed) is None
    except (Forged, device_library.NotLoadable, Forgery):
        return False


def _where_right(attempt: Replay, recorded: Recorded, evidence: Evidence) -> Outcome:
    """Inputs that are faint enough, for one, all give the same: there the host must pass little, too."""
    if not attempt.is_blind():
        return Outcome([])
    few = _few_passed(attempt, recorded, evidence)
    return Outcome([] if few else [attempt.foreign()], blind=True)


def _few_passed(attempt: Replay, recorded: Recorded, evidence: Evidence) -> bool:
    """Whether the host makes little of the inputs."""
    elements = sum(output.elements for output in attempt.program.outputs)
    passed = host_words.passed(recorded.segments, recorded.chosen, recorded.others)
    # Without other calls every word counts, those that are always the same as well.
    return passed * _PASSED_SHARE <= elements and (not recorded.others or passed <= evidence.most_words)
