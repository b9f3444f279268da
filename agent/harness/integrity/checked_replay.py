"""Replay of recorded calls with memory checks, without the candidate's host code.

A candidate can detect checks in its own process: by the call, the inputs, the contents of memory or the
clock. Here the judge checks a call that was made without them and that nobody could predict. Kernels that
depend on the order of threads find an order other than in the checked draws.
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

    A finding after the first of the earlier calls counts only if it also appears after all of them.
    """
    claims: list[dict[str, Any]] = []
    for earlier in ("first", "all"):
        needed = calls.alone(recorded.segments, recorded.chosen, earlier=earlier)
        try:
            replay = Replay(evidence, recorded, needed, everything=True)
            told = replay.checked(recorded.inputs_seed, order, secrets.randbits(63))
        except (Forged, Forgery, device_library.NotLoadable, Unrepeatable):
            return []  # another check decides whether the call can be replayed at all
        claims = [_claim(finding, replay) for finding in told if finding.severity == "error"]
        if not claims:
            return []
    return symbolize.resolve(claims, dict.fromkeys(evidence.libraries))


def _claim(finding: DeviceFinding, replay: Replay) -> dict[str, Any]:
    places = {"place": _place(finding.place, replay), "other": _place(finding.other, replay)}
    return {**vars(finding), **places}


def _place(place: CodePlace | None, replay: Replay) -> dict[str, Any] | None:
    return None if place is None else {"library": replay.original(place.library), "offset": place.offset}
