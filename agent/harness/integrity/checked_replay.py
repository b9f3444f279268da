"""Recorded calls repeated with their memory accesses checked, where the candidate's host code does not run.

Checks in the candidate's own process are known to whoever looks for them: by the call, by the inputs, by what
memory holds, by the clock. Here a call is judged that was made without them; which it is nobody knew then.
Kernels that look at the order of threads find another one than in the draws that are checked there.
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
    """Errors in the accesses of one call on its own inputs, as the worker would tell them.

    What is found after some of the calls before it counts where it is found after all of them as well.
    """
    claims: list[dict[str, Any]] = []
    for earlier in ("first", "all"):
        needed = calls.alone(recorded.segments, recorded.chosen, earlier=earlier)
        try:
            replay = Replay(evidence, recorded, needed, everything=True)
            told = replay.checked(recorded.inputs_seed, order, secrets.randbits(63))
        except (Forged, Forgery, device_library.NotLoadable, Unrepeatable):
            return []  # whether it can be repeated at all is asked elsewhere
        claims = [_claim(finding, replay) for finding in told if finding.severity == "error"]
        if not claims:
            return []
    return symbolize.resolve(claims, dict.fromkeys(evidence.libraries))


def _claim(finding: DeviceFinding, replay: Replay) -> dict[str, Any]:
    places = {"place": _place(finding.place, replay), "other": _place(finding.other, replay)}
    return {**vars(finding), **places}


def _place(place: CodePlace | None, replay: Replay) -> dict[str, Any] | None:
    return None if place is None else {"library": replay.original(place.library), "offset": place.offset}
