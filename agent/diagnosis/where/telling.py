"""Explanation of a wrong output from what each kernel wrote when the call was replayed.

Contract: `told` claims a cause only if a wrong reference reproduces what a kernel wrote. Every other sentence
reports an observation. The verdict never changes.
"""

import time
from typing import NamedTuple

import torch

from agent.diagnosis.graph import tensors
from agent.diagnosis.mismatch import causes, mismatch_location
from agent.diagnosis.mismatch.case import Case
from agent.diagnosis.mismatch.causes import Explained
from agent.diagnosis.mismatch.matching import Limit, Target
from agent.diagnosis.tape import Tape
from agent.diagnosis.where import kernel_values, locating, non_finite, part, values, writers
from agent.diagnosis.where.following import Followed, Writing
from agent.diagnosis.where.kernel_values import Held
from agent.diagnosis.where.locating import Located
from agent.diagnosis.where.values import Value
from agent.records import Finding

Tensor = torch.Tensor
SAME = 1e-4
"""Allowed difference between the replayed output and the judged one, relative to element and rms."""
NAMED = 2
"""Maximum number of values named for one kernel."""
KERNELS = 3
"""Maximum number of kernels named with their values."""
AMPLIFIED = 4.0
"""Maximum factor by which the tolerance grows with the amplification; masked values are huge."""
MATCHING_S = 0.5
"""CPU seconds for matching the reference's values with what kernels wrote."""
LOCATING_S = 0.3
"""CPU seconds for finding the kernel at fault."""


class Told(NamedTuple):
    """Result of the search in what kernels wrote: sentences, or an explained cause."""

    sentences: tuple[str, ...] = ()
    explained: Explained | None = None
    """Cause, if what a kernel wrote reveals it."""


class _Kernel(NamedTuple):
    """Consecutive launches of one kernel and what they wrote apart from outputs."""

    name: str
    writings: list[Writing]
    held: list[Held]
    right: bool
    """True if each written allocation holds a value of the reference, an input or one repeated number."""
    writes_output: bool


def told(case: Case, followed: Followed, finding: Finding, budget_s: float) -> Told:
    """Explain a wrong output; the result is empty if the replayed output differs from the judged one."""
    until = time.thread_time() + budget_s
    targets = _targets(case)
    if not targets or not _is_same(case, followed):
        return Told()
    tape = case.tape()
    found = values.list_values(tape, tensors(tape.result))
    known = kernel_values.sizes([*case.inputs, *case.truth])
    enough = time.thread_time() + MATCHING_S
    held = kernel_values.everywhere(followed, found, known, enough)
    copied = kernel_values.everywhere(followed, values.taken(tape), known, enough)
    number, target = first = next(iter(targets.items()))
    if time.thread_time() > enough:
        return Told(tuple(filter(None, [_by_whom(target, number, followed)])))
    located = locating.first(tape, followed, held, found, first, LOCATING_S)
    kernels = _kernels(followed, held, copied, case)
    if located is not None:
        explained = _of_the_kernel(case, tape, followed, located, finding, until - time.thread_time())
        if explained is not None:
            return Told(explained=explained)
    elif any(kernel.right for kernel in kernels):
        explained = _behind(case, tape, kernels, finding, until - time.thread_time())
        if explained is not None:
            return Told(explained=explained)
    sentences = [
        _located(followed, located)
        if located is not None
        else _first_wrong(kernels, found, followed.operators),
        non_finite.first(followed, target),
        _by_whom(target, number, followed) if located is None else None,
    ]
    return Told(tuple(sentence for sentence in sentences if sentence))


def _targets(case: Case) -> dict[int, Target]:
    places = enumerate(zip(case.outputs, case.truth, case.limits, strict=True))
    made = {
        k: Target(y, truth, limit) for k, (y, truth, limit) in places if y.numel() and y.shape == truth.shape
    }
    return {k: target for k, target in made.items() if target.count}


def _is_same(case: Case, followed: Followed) -> bool:
    """Return True if the replay gave the judged outputs; races and unwritten memory change between runs."""
    if len(followed.outputs) != len(case.outputs):
        return False
    pairs = zip(case.outputs, followed.outputs, strict=True)
    return all(bool(kernel_values.near(again.values.double(), y.double(), SAME).all()) for y, again in pairs)


def _kernels(
    followed: Followed, held: dict[int, list[Held]], copied: dict[int, list[Held]], case: Case
) -> list[_Kernel]:
    made = []
    outputs = [y.reshape(-1).double().nan_to_num() for y in case.outputs]
    for first, own in followed.by_launch():
        numbers = [k for k, writing in enumerate(followed.writings) if writing.first == first]
        inner = [k for k in numbers if not _is_output(followed.writings[k], outputs)]
        itself = [
            any(one.is_itself for one in held[k]) or copied[k] or followed.writings[k].is_constant
            for k in inner
        ]
        told = [one for k in inner for one in held[k]]
        name, right = followed.kernel(first).name, bool(inner) and all(itself)
        made.append(_Kernel(name, own, told, right, len(inner) < len(numbers)))
    return made


def _is_output(writing: Writing, outputs: list[Tensor]) -> bool:
    for dtype in kernel_values.FLOATS:
        elements = writing.elements(dtype)
        if elements is not None:
            flat = elements.double().nan_to_num()
            if any(flat.numel() == y.numel() and torch.equal(flat, y) for y in outputs):
                return True
    return False


def _of_the_kernel(
    case: Case, tape: Tape, followed: Followed, located: Located, finding: Finding, budget_s: float
) -> Explained | None:
    """Explain why the kernel's first wrong value is wrong; None if no cause is found."""
    _, value, given = located.wrong[0]
    smaller = part.cut_part(tape, [tensors(value.call.result)[0]], {})
    if smaller is None:
        return None
    called = f"What kernel `{followed.kernel(located.launch).name}` writes as {value.told} of the reference"
    alone = case._replace(
        outputs=[given], truth=[value.tensor], limits=[_limit(value.tensor)], spreads=(), called=called,
        part=smaller,
    )  # fmt: skip
    found = causes.explain(alone, finding, budget_s=max(budget_s, 0.0))
    if not found.named:
        return None
    message = f"{found.finding.message} {_rest(located)}"
    return found._replace(finding=found.finding.model_copy(update={"message": message}), open=())


def _limit(truth: Tensor) -> Limit:
    """Return the tolerance around the elements of a value."""
    close = kernel_values.CLOSE[torch.float32]
    finite = truth[torch.isfinite(truth)].double()
    size = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
    return lambda v, amplification: min(amplification, AMPLIFIED) * close * (v.abs() + size)


def _rest(located: Located) -> str:
    more = [one.value.told for one in located.wrong[1:]]
    return (
        f"{' and '.join(more)} it writes wrongly too. All that follows is right."
        if more
        else "All that follows is right."
    )


def _behind(
    case: Case, tape: Tape, kernels: list[_Kernel], finding: Finding, budget_s: float
) -> Explained | None:
    """Search for the cause among the calls after the values that are right; None if it is not found."""
    right = [one.value for kernel in kernels for one in kernel.held if one.is_itself and one.value.is_result]
    given = {id(tensors(value.call.result)[0]): value.words.strip("`") for value in right}
    behind = part.cut_part(tape, tape.result, given)
    if behind is None or not 0 < len(behind.calls) < len(tape.calls):
        return None
    found = causes.explain(case._replace(part=behind), finding, budget_s=max(budget_s, 0.0))
    return found if found.named else None


def _located(followed: Followed, located: Located) -> str:
    _, value, given = located.wrong[0]
    target = Target(given, value.tensor, _limit(value.tensor))
    wrong = target.wrong.reshape(target.shape)
    first = tuple(int(place) for place in wrong.nonzero()[0])
    example = f"{float(given[first]):.4g} for {float(value.tensor[first]):.4g} at {first}"
    return (
        f"The error starts in kernel `{followed.kernel(located.launch).name}`: of {value.told} of the "
        f"reference it writes {target.count} of {wrong.numel()} elements wrongly{_pattern(wrong)}, first "
        f"{example}{_how(target)}. {_rest(located)}"
    )


def _how(target: Target) -> str:
    """Describe what the wrong elements have in common, to follow an example; empty if nothing is known."""
    finite, wanted = torch.isfinite(target.y), torch.isfinite(target.truth)
    said = []
    y, truth = (values[target.wrong & finite & wanted] for values in (target.y, target.truth))
    if y.numel() >= kernel_values.ENOUGH:
        factor = float((y * truth).sum() / truth.square().sum().clamp_min(1e-300))
        if bool(kernel_values.near(y, factor * truth, SAME).all()):
            said.append(f"times {factor:.4g} where finite")
    for count, words in (
        (int((finite & ~wanted).sum()), "finite where the reference is not"),
        (int((~finite & wanted).sum()), "not finite where the reference is"),
    ):
        said += [f"{count} {words}"] if count else []
    return f" ({', '.join(said)})" if said else ""


def _pattern(wrong: Tensor) -> str:
    """Describe the pattern of wrong elements, to follow their number.

    The result is empty if all elements are wrong or no pattern is known.
    """
    place = next(mismatch_location.patterns(wrong, ()), None)
    return f", {place.words}" if place is not None and not bool(wrong.all()) else ""


def _first_wrong(kernels: list[_Kernel], found: list[Value], operators: bool) -> str | None:
    """Say which kernels wrote values of the reference, and which kernel is the first that did not.

    `operators` is true if torch computes something between the launches.
    """
    if len({kernel.name for kernel in kernels}) < 2:
        return _of_one(kernels)
    held: list[_Kernel] = []
    after = ""
    for place, kernel in enumerate(kernels):
        if kernel.held:
            held.append(kernel)
        elif not kernel.right:
            if not kernel.writes_output:
                after = _otherwise(kernel, found)
            elif held and all(one.right for one in kernels[:place]):
                after = (
                    "The error starts after that"
                    if operators
                    else f"The error starts in kernel `{kernel.name}`"
                )
            break
    written = [f"{_listed(kernel.held)} by `{kernel.name}`" for kernel in held]
    more = f" and {len(written) - KERNELS} more" if len(written) > KERNELS else ""
    rightly = "Rightly written" if all(kernel.right for kernel in held) else "Written"
    begun = f"{rightly} of the reference: {', '.join(written[:KERNELS])}{more}" if held else ""
    return ". ".join(filter(None, (begun, after))) + "." if begun or after else None


def _otherwise(kernel: _Kernel, found: list[Value]) -> str:
    """Describe a kernel that writes no value of the reference correctly."""
    for writing in kernel.writings:
        almost = kernel_values.partly(writing, found)
        if almost is not None and almost.wrong is not None:
            wrong = almost.wrong.reshape(almost.value.tensor.shape)
            count = f"{int(wrong.sum())} of {wrong.numel()} elements"
            return (
                f"The first kernel that goes wrong is `{kernel.name}`: of {almost.value.told} of the "
                f"reference it writes {count} otherwise{_pattern(wrong)}"
            )
    name = kernel.name
    return f"What kernel `{name}` writes is no value of the reference: wrong, or another way to the result"


def _of_one(kernels: list[_Kernel]) -> str | None:
    right = [one for kernel in kernels for one in kernel.held if one.is_itself]
    return f"Rightly written of the reference: {_listed(right)}." if right else None


def _listed(held: list[Held]) -> str:
    told = list(dict.fromkeys(one.told for one in held))
    return " and ".join(told[:NAMED]) + (f" and {len(told) - NAMED} more" if len(told) > NAMED else "")


def _by_whom(target: Target, number: int, followed: Followed) -> str | None:
    pattern = writers.pattern(target.wrong, followed.outputs[number], followed)
    return f"The wrong elements were written {pattern}." if pattern else None
