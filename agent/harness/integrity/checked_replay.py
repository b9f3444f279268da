"""Replay of recorded calls with memory checks, without the candidate's host code.

A candidate can detect memory checks in its own process by the call, the inputs, the contents of memory or
the clock. Here the judge replays with checks a call that was made without them and picked at random. The
replay also runs the threads in another order than the checked draws did.
"""

import secrets
from typing import Any

from agent.emulator.compile import symbolize
from agent.emulator.replay import calls, device_library
from agent.emulator.replay.events import Forged
from agent.harness.integrity.replay_check import Evidence, Forgery, Recorded, Replay, Unrepeatable
from agent.harness.messages.device_answers import CodePlace, DeviceFinding
from agent.torch_shim import c_abi

ORDERS = (c_abi.ORDER_REVERSE, c_abi.ORDER_SHUFFLED)


def found(recorded: Recorded, evidence: Evidence, order: int) -> list[dict[str, Any]]:
    """Return errors in the memory accesses of one call on its own inputs, in the worker's format.

    The call is replayed after the first call of each instance alone, then after all earlier calls. Errors
    count only if both replays have some; those of the second are returned.
    """
    claims: list[dict[str, Any]] = []
    for earlier in ("first", "all"):
        needed = calls.alone(recorded.segments, recorded.chosen, earlier=earlier)
        try:
            replay = Replay(evidence, recorded, needed, everything=True)
            told = replay.checked(recorded.inputs_seed, order, secrets.randbits(63))
        except (Forged, Forgery, device_library.NotLoadable, Unrepeatable):
            return []  # `replay_evidence` decides whether the call can be replayed at all
        claims = [_claim(finding, replay) for finding in told if finding.severity == "error"]
        if not claims:
            return []
    return symbolize.resolve(claims, dict.fromkeys(evidence.libraries))


def _claim(finding: DeviceFinding, replay: Replay) -> dict[str, Any]:
    places = {"place": _place(finding.place, replay), "other": _place(finding.other, replay)}
    return {**vars(finding), **places}


def _place(place: CodePlace | None, replay: Replay) -> dict[str, Any] | None:
    return None if place is None else {"library": replay.original(place.library), "offset": place.offset}
