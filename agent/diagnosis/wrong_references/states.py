"""Faults of an updated state: no update, a read on the wrong side of the update, or a wrong decay."""

from collections.abc import Iterator
from typing import Any

import torch

from agent.diagnosis.graph import Arguments, Rewrite, invoke, tensors
from agent.diagnosis.tape import Call, Tape
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
_UPDATE = r"\*|decay|momentum|running|state"


def _updates(tape: Tape) -> dict[int, list[Call]]:
    """Return the calls that write to each named tensor, by its `id`."""
    found: dict[int, list[Call]] = {}
    for call in tape.calls:
        target = call.given.get("self")
        if call.func._schema.is_mutable and isinstance(target, Tensor):
            found.setdefault(id(target), []).append(call)
    return {key: calls for key, calls in found.items() if tape.name(calls[0].given["self"]) is not None}


def _kept(given: Arguments) -> Tensor:
    return torch.as_tensor(given["self"]).clone()


@rule()
def _not_updated(site: Site) -> Iterator[Variant]:
    """Yield the variant in which a state is not updated, at the site of its first update."""
    updates = site.tape.once(_updates) if site.call.func._schema.is_mutable else {}
    own = updates.get(id(site.given.get("self")), [])
    if not own or own[0] is not site.call:
        return
    name = site.tape.name(site.given["self"])
    words = f"with the state ({name}) not updated: it stays as it was before"
    # A state that is not returned shows only in later values, as does a read that is too early.
    state = site.given["self"]
    returned = any(t.shape == state.shape and torch.equal(t, state) for t in tensors(site.tape.result))
    rank = 0 if returned else 2
    yield Variant("state-not-updated", words, {call.number: _kept for call in own}, rank, _UPDATE)
    if len(updates) > 1 and next(iter(updates.values())) is own:
        everything: dict[int, Rewrite] = {call.number: _kept for calls in updates.values() for call in calls}
        words = f"with none of its {len(updates)} states updated: they stay as they were before"
        yield Variant("state-not-updated", words, everything, 0, _UPDATE)
    yield from _read_otherwise(site, own, str(name))


def _read_otherwise(site: Site, own: list[Call], name: str) -> Iterator[Variant]:
    """Yield variants with one operator that reads the state on the other side of its update."""
    state, tape = site.given["self"], site.tape
    first, last = own[0].number, own[-1].number
    new = _after(tape, own[-1])
    for reader in tape.calls:
        taken = [key for key, value in reader.given.items() if value is state]
        if not taken or reader in own or reader.is_view or reader.func._schema.is_mutable:
            continue
        label = Site(reader, tape, site.facts).label
        if reader.number < first:
            words = f"with {name} read after its update in {label}; the reference reads it before"
            yield Variant(
                "state-order", words, {reader.number: _reading(reader, taken[0], [new])}, 1, _UPDATE
            )
        elif reader.number > last and reader.name != "clone":
            old: list[Tensor] = []
            rewrites = {first: _saving(own[0], old), reader.number: _reading(reader, taken[0], old)}
            words = f"with {name} read as before its update in {label}; the reference reads the updated one"
            yield Variant("state-order", words, rewrites, 1, _UPDATE)


def _after(tape: Tape, update: Call) -> Tensor:
    """Return the state after its last update."""
    held: list[Tensor] = []

    def run(given: Arguments) -> Any:
        held.append(torch.as_tensor(invoke(update.func, given)).clone())
        return held[-1]

    tape.again({update.number: run})
    return held[-1]


def _saving(update: Call, held: list[Tensor]) -> Rewrite:
    def run(given: Arguments) -> Any:
        held[:] = [given["self"].clone()]
        return invoke(update.func, given)

    return run


def _reading(reader: Call, name: str, held: list[Tensor]) -> Rewrite:
    return lambda given: invoke(reader.func, given | {name: held[0]})


@rule("mul", "lerp", "add")
def _decays(site: Site) -> Iterator[Variant]:
    """Yield variants with a weight exchanged with its complement, or a complement left out or added."""
    shares = site.tape.once(_shares)
    key, share = next(((k, s) for call, k, s in shares if call is site.call), ("", 0.0))
    if key:
        kind, called = _share(site)
        words = (
            f"with 1 - {share:g} = {1 - share:g} for the {called} {share:g}: it and its complement exchanged"
        )
        yield site.variant(kind, words, site.changed(**{key: 1 - share}), 1, _UPDATE)
    if key == "alpha" and share:
        words = f"with what is new not multiplied with {share:g}: the complement of the decay is left out"
        yield site.variant("wrong-decay", words, site.changed(alpha=1.0), 1, _UPDATE)
    if shares and shares[0][0] is site.call and len(shares) > 1:
        rewrites: dict[int, Rewrite] = {
            call.number: Site(call, site.tape, site.facts).changed(**{name: 1 - value})
            for call, name, value in shares
        }
        kind, called = _share(site)
        words = f"with the {called} {share:g} and its complement {1 - share:g} exchanged, in every step"
        yield Variant(kind, words, rewrites, 1, _UPDATE)
    if site.call.name == "add" and site.given.get("alpha") == 1 and isinstance(site.given["other"], Tensor):
        maker = site.tape.maker(site.given["self"])
        decay = maker.given.get("other") if maker is not None and maker.name == "mul" else None
        if isinstance(decay, float) and 0 < decay < 1:
            words = f"with what is new multiplied with 1 - {decay:g} (damped); the reference adds it as it is"
            yield site.variant("wrong-decay", words, site.changed(alpha=1 - decay), 1, _UPDATE)


def _share(site: Site) -> tuple[str, str]:
    """Return the kind and word for a weight of a mix: a decay if it weights a state, else a weight."""
    weighted = site.given["self"]
    steps = sum(call.place == site.call.place for call in site.tape.calls) if site.call.place else 1
    updated = site.tape.name(weighted) is not None and _is_updated(site)
    state = updated or steps > 1 or site.call.name == "lerp"
    return ("wrong-decay", "decay") if state else ("weights-swapped", "weight of the mix")


def _is_updated(site: Site) -> bool:
    """Return True if the operand is a state: it is written to, or a sum with it is written or returned."""
    sums = [call for call in site.tape.users(site.call) if call.name in ("add", "sub")]
    made = [t for call in sums for t in tensors(call.result)]
    return bool(site.call.written) or any(
        result is t for result in tensors(site.tape.result) for t in made
    ) or any(call.written for call in sums)  # fmt: skip


def _shares(tape: Tape) -> list[tuple[Call, str, float]]:
    """Return the numbers between 0 and 1 that weight a state and its input, with call and argument name.

    Except for lerp, only numbers whose complement also occurs count.
    """
    found = []
    for call in tape.calls:
        key = {"mul": "other", "lerp": "weight", "add": "alpha"}.get(call.name, "")
        value = call.given.get(key)
        if isinstance(value, float) and 0 < value < 1 and value != 0.5:
            found.append((call, key, value))
    values = [value for call, _, value in found if call.name != "lerp"]
    return [
        (call, key, value)
        for call, key, value in found
        if call.name == "lerp" or any(abs(1 - value - other) < 1e-9 for other in values)
    ]


@rule("native_batch_norm")
def _running(site: Site) -> Iterator[Variant]:
    """Yield faults of the running statistics that batch norm updates in place."""
    momentum = site.given["momentum"]
    if not site.given["training"] or not isinstance(site.given.get("running_var"), Tensor):
        return
    words = (
        f"with running statistics that keep {momentum:g} and take {1 - momentum:g} of the batch: the "
        "momentum (decay) and its complement exchanged"
    )
    yield site.variant("wrong-decay", words, site.changed(momentum=1 - momentum), 0, _UPDATE)
    words = "with the biased variance, divided by n, in the running variance; the reference has n - 1"
    yield site.variant("biased-variance", words, lambda given: _with_running(site.call, given, 0), 0, "var")
    words = "with the running statistics not updated: they stay as they were"
    yield site.variant("state-not-updated", words, site.changed(momentum=0.0), 0, _UPDATE)
    words = "with the root of the variance (standard deviation) in the running variance"
    yield site.variant("root-omitted", words, lambda given: _with_running(site.call, given, None), 1, "sqrt")


def _with_running(call: Call, given: Arguments, correction: int | None) -> Any:
    """Run the call and update the running variance with this correction; None takes the batch's deviation."""
    x, momentum = given["input"], given["momentum"]
    old = given["running_var"].clone()
    result = invoke(call.func, given)
    batch = x.var([d for d in range(x.dim()) if d != 1], correction=1 if correction is None else correction)
    batch = batch.sqrt() if correction is None else batch
    given["running_var"].copy_((1 - momentum) * old + momentum * batch)
    return result
