"""The user's reference, run to get the ground truth: secret parameters and inputs, float32 and float64 runs.

A draw takes two or more float32 runs and one float64 run, in eval mode without gradients. Parameters and
inputs follow from seeds alone, so that those changed in place can be made again.
"""

import contextlib
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch

from agent.harness.truth import (
    float64,
    input_distributions,
    perturbation,
    slices,
    steps,
    ties,
    tolerance,
)
from agent.harness.truth.draws import Draw, in_sequence, seconds, tree_map
from agent.harness.truth.summation_order import OtherOrder
from agent.harness.truth.user_code import ReferenceRaised, drawn, note_devices, of_the_reference
from agent.harness.truth.varying import Varying
from agent.harness.worker import memory_guards

SLICED_BYTES = 1 << 30
"""Maximum bytes of float64 inputs and outputs in one slice of the ground truth."""
SLICES_PER_INPUT = 4
"""Assumed bytes of float64 inputs and outputs per byte of float32 inputs."""
WARM_S = 0.01
"""Seconds above which the first forward is timed again, to exclude the loading of libraries."""


class Reference:
    def __init__(self, source: Path, device: str) -> None:
        self._device = device
        self._space: dict[str, Any] = {"__name__": "reference", "__file__": str(source)}
        note_devices(source.read_text())
        with of_the_reference():
            exec(compile(source.read_text(), str(source), "exec"), self._space)
        self.model: Any = None
        self.varying = Varying(self)
        self._model64: Any = None
        self._dtype: torch.dtype | None = None
        self.seed = 0
        self._strengths: dict[int, float] = {}
        """Strength of the parameters' perturbation, by seed."""
        self._widened: dict[int, bool] = {}
        self._masked: dict[int, bool] = {}
        """By seed, True if the model's mask is redrawn."""
        self.constructed: dict[str, torch.Tensor] = {}
        """State of the present instance before it was perturbed."""
        self._fixed: bool | None = None
        self._independent: bool | None = None
        """True if each row of the outputs depends only on that row of the inputs; None before the test."""
        self._rows = 0
        """Number of rows, the length of the outputs' first dimension."""
        self._constructs_on = device
        """Device on which the model is constructed: the GPU, which initialises fast, if it can be."""
        self._has_steps: bool | None = None
        """True if the reference rounds, compares or chooses values; None before the first draw."""
        self.construct_s = self.forward_s = 0.0
        """Maximum seconds taken to construct the model, and by its float32 forward once warm.

        Constructing is measured in processor time. The forward is measured in wall-clock time on a GPU, and
        in processor time of all threads on a CPU.
        """
        self.changes: set[str] = set()
        """Tensors that the reference writes to: names of parameters and buffers, or `input`."""
        self._writes: bool | None = None
        """True if the reference has written to a tensor so far; None before its first run."""
        self._has_other_ways: bool | None = None
        """True if a draw so far had sums of few results, steps, or a choice among equal elements.

        None before the first draw.
        """

    def perturb(self, seed: int, *, wide: bool = False) -> list[Any]:
        """Make a new instance with perturbed parameters, and return the constructor's arguments.

        With `wide`, some parameters of this seed have changed signs and magnitudes from now on, provided that
        the reference stays accurate.
        """
        if wide and self._widened.setdefault(seed, True):
            self._made(seed, 1.0)
            self._widened[seed] = self._stable(seed, raising=False)
        arguments = self._made(seed, self._strengths.get(seed, 1.0))
        if seed not in self._strengths and perturbation.is_deep(self.model):
            self._strengths[seed] = self._strength_at(seed)
            arguments = self._made(seed, self._strengths[seed])
        if seed not in self._masked:
            self._masked[seed] = perturbation.redraw_mask(self.model, seed + 3)
            if self._masked[seed] and not self._stable(seed, raising=False):
                self._masked[seed] = False
                arguments = self._made(seed, self._strengths.get(seed, 1.0))
        return arguments

    @property
    def strength(self) -> float:
        """Strength of the present parameters' perturbation, 1 for the full one."""
        return self._strengths.get(self.seed, 1.0)

    @property
    def least_strength(self) -> float:
        """Lowest strength of the perturbations so far."""
        return min(self._strengths.values(), default=1.0)

    def _strength_at(self, seed: int) -> float:
        """Halve the strength from 1 until the reference is accurate in float32, and return it."""
        strength = 1.0
        while strength > perturbation.LEAST and not self._stable(seed):
            strength /= 2
            self._made(seed, strength)
        return strength

    def _stable(self, seed: int, *, raising: bool = True) -> bool:
        """Return True if float32 is close to the truth on inputs of the present parameters' seed.

        Returns `raising` if the reference raises, since the next draw reports the error.
        """
        try:
            with torch.no_grad():
                native = self._placed(self.native(self._stated(seed))[0])
                expected = tolerance.Expected(native, native, self.truth(self._stated(seed)))
        except ReferenceRaised:
            return raising
        return not tolerance.non_finite(native) and expected.native_share <= tolerance.UNSTABLE

    def _made(self, seed: int, strength: float) -> list[Any]:
        self.seed = seed
        torch.manual_seed(seed)
        arguments, begun = self._arguments(), time.process_time()
        self._model64 = self.model = None  # frees memory for the next instance
        self.model = self._constructed(arguments).to(self._device)
        self.construct_s = max(self.construct_s, time.process_time() - begun)
        self.constructed = {n: t.clone() for n, t in self.model.state_dict().items()}
        perturbation.perturb(self.model.state_dict(), seed + 1, strength, perturbation.masks(self.model))
        if self._masked.get(seed, False):
            perturbation.redraw_mask(self.model, seed + 3)
        if self._widened.get(seed, False):
            perturbation.widen(self.model, self.constructed, seed + 2)
        self._model64 = self._dtype = None
        self.varying.forget()
        return arguments

    def _arguments(self) -> list[Any]:
        with of_the_reference():
            return list(self._space["get_init_inputs"]())

    def _constructed(self, arguments: list[Any]) -> Any:
        """Construct the model from the present random state, on the GPU if the constructor allows that."""
        state = torch.random.get_rng_state()
        if self._constructs_on == "cuda":
            try:
                with of_the_reference(), torch.device("cuda"):
                    return self._space["Model"](*arguments).eval()
            except RuntimeError:
                # The constructor mixes CPU tensors, such as those from numpy, with tensors on the GPU.
                self._constructs_on = "cpu"
                torch.random.set_rng_state(state)
        with of_the_reference():
            return self._space["Model"](*arguments).eval()

    def state(self) -> dict[str, torch.Tensor]:
        """Return the parameters and buffers that the constructor made.

        Names that a forward registers later, such as a cached cast, are left out.
        """
        return {name: t for name, t in self.model.state_dict().items() if name in self.constructed}

    def inputs(self, seed: int, family: str | None) -> list[Any] | None:
        """Return stated inputs, or inputs of a family; None if the family has nothing to change."""
        inputs = self._stated(seed)
        return self.varying.derived(family, inputs, seed + 1) if family else inputs

    def draw(
        self, seed: int, family: str | None = None, inputs: list[Any] | None = None, *, strict: bool = False
    ) -> Draw | None:
        """Return inputs and their expected outputs, or None if the family has nothing to change.

        Raises ReferenceRaised if the reference raises.

        `inputs` are those of this seed and family, if the caller has them. With `strict`, tolerances come
        from torch's own order of summation alone, if an earlier draw has shown that the reference allows
        that. `Draw.in_full` then computes the full ones.
        """
        *stronger, last = (family, *input_distributions.MILDER.get(family or "", ()))
        for name in stronger:
            with contextlib.suppress(ReferenceRaised):
                drawn = self._draw(seed, name, None, strict)
                if drawn is not None and drawn.expected.obstacle() is None:
                    return drawn
                del drawn
        return self._draw(seed, last, inputs, strict)

    def _draw(self, seed: int, family: str | None, inputs: list[Any] | None, strict: bool) -> Draw | None:
        inputs = self.inputs(seed, family) if inputs is None else inputs
        if inputs is None:
            return None
        is_plain = self._writes is False and self._has_other_ways is False
        drawn = (self._strictly if strict and is_plain else self._fully)(seed, family, inputs)
        return drawn if self.varying.keeps_structure(family, drawn.expected.native) else None

    def _strictly(self, seed: int, family: str | None, inputs: list[Any]) -> Draw:
        with torch.no_grad():
            truth = self.truth(inputs)
            inputs, native, touched, overlaps = self._run(seed, family, inputs)
        if touched:
            return self._fully(seed, family, inputs)

        def in_full() -> Draw:
            again = self.inputs(seed, family)
            assert again is not None
            return self._fully(seed, family, again)

        return Draw(inputs, tolerance.Expected(native, native, truth), overlaps, family, in_full)

    def _fully(self, seed: int, family: str | None, inputs: list[Any]) -> Draw:
        with torch.no_grad():
            # The truth takes the most memory, so it comes first unless the reference may write to tensors.
            truth = self.truth(inputs) if self._writes is False else None
            inputs, native, touched, overlaps = self._run(seed, family, inputs)
            with OtherOrder() as mode:
                other = self._placed(self.model(*inputs))
            inputs = self._restored(seed, family) if touched else inputs
            sequence = None
            self._has_other_ways = bool(self._has_other_ways or mode.order.few or mode.picks)
            if mode.order.few:
                sequence = self._in_sequence(inputs)
                inputs = self._restored(seed, family) if touched else inputs
            chosen = self._chosen(seed, family, inputs, bool(touched)) if family and mode.picks else None
            inputs = self._restored(seed, family) if touched and chosen else inputs
            truth = self.truth(inputs) if truth is None or touched else truth
            expected = self._expected(inputs, (native, other), truth, sequence, bool(touched))
            expected.open_choice = chosen is not None and expected.differs(*chosen)
        return Draw(inputs, expected, overlaps, family)

    def _run(
        self, seed: int, family: str | None, inputs: list[Any]
    ) -> tuple[list[Any], Any, set[str], list[list[str]]]:
        """Run torch's own float32 computation.

        Returns the inputs before the run, the result, the names of tensors written to, and `Draw.overlaps`.
        """
        native, touched = self.native(inputs)
        overlaps = memory_guards.overlaps(native, {"input": inputs, "parameter": self.state()})
        native = self._placed(native)
        self._learn_independence(inputs, native, touched)
        self._writes = bool(self._writes or touched)
        if touched:
            self.changes |= touched
            inputs, native = self._restored(seed, family), tree_map(torch.clone, native)
        return inputs, native, touched, overlaps

    def sample(self, seed: int) -> tuple[list[Any], Any]:
        """Return stated inputs and torch's own result on them, for uses that compare no values."""
        inputs = self.inputs(seed, None)
        assert inputs is not None
        with torch.no_grad():
            return self._run(seed, None, inputs)[:2]

    def strict(self, seed: int) -> tolerance.Expected:
        """Return the expected output for a seed's stated inputs, with tolerances from torch's order alone.

        The reference must write to no tensor. The further order of summation of a full draw would only widen
        the tolerances.
        """
        with torch.no_grad():
            truth = self.truth(self._stated(seed))
            native = self._placed(self.native(self._stated(seed))[0])
            return tolerance.Expected(native, native, truth)

    def given(self, inputs: list[Any]) -> Draw:
        """Return the draw for given inputs. The reference must write to no tensor.

        Raises ReferenceRaised if the reference raises.
        """
        with torch.no_grad():
            native = self.native(inputs)[0]
            with OtherOrder() as mode:
                other = self.model(*inputs)
            sequence = self._in_sequence(inputs) if mode.order.few else None
            return Draw(inputs, self._expected(inputs, (native, other), self.truth(inputs), sequence), [])

    def convert(self, dtype: torch.dtype | None) -> None:
        """Convert the present parameters to another floating-point dtype. None restores the stated one."""
        if dtype is not self._dtype:
            self.perturb(self.seed)
            self.model.to(dtype)
            self._dtype = dtype

    def native(self, inputs: list[Any]) -> tuple[Any, set[str]]:
        """Return torch's own float32 result, and the names of tensors that the reference wrote to."""
        tensors = {"input": memory_guards.leaves(inputs)} | {name: [t] for name, t in self.state().items()}
        before = {name: [t._version for t in group] for name, group in tensors.items()}
        # Batch norm writes to its running statistics without changing their version.
        buffers = {n: t.clone() for n, t in self.model.named_buffers() if n in tensors}
        result, took = self._timed(inputs)
        after = {name: [t._version for t in group] for name, group in tensors.items()}
        touched = {name for name in tensors if before[name] != after[name]}
        touched |= {name for name, old in buffers.items() if not torch.equal(tensors[name][0], old)}
        if self.forward_s == 0.0 and took > WARM_S and not touched:
            result, took = self._timed(inputs)
        self.forward_s = max(self.forward_s, took)
        return result, touched

    def _timed(self, inputs: list[Any]) -> tuple[Any, float]:
        begun = seconds(self._device)
        with of_the_reference():
            result = self.model(*inputs)
        return result, seconds(self._device) - begun

    def truth(self, inputs: list[Any]) -> Any:
        """Return the result in float64, in slices if the inputs are large and rows are independent.

        Tensors that forward makes without a dtype are float64 as well.
        """
        pieces = self._pieces(inputs)
        if pieces < 2 or not self._rows:
            return self._wide_truth(tree_map(float64.wide, inputs))

        def run(part: list[Any]) -> Any:
            return self._wide_truth(tree_map(float64.wide, part))

        return slices.joined(run, inputs, self._rows, pieces)

    def _pieces(self, inputs: list[Any]) -> int:
        """Return the number of slices in which the ground truth is computed."""
        if not self._independent:
            return 1
        given = sum(tensor.numel() * tensor.element_size() for tensor in memory_guards.leaves(inputs))
        return min(-(-SLICES_PER_INPUT * given // SLICED_BYTES), self._rows)

    def _learn_independence(self, inputs: list[Any], native: Any, touched: set[str]) -> None:
        """Test once, for large inputs on a GPU, if the ground truth can be computed in slices."""
        size = sum(tensor.numel() * tensor.element_size() for tensor in memory_guards.leaves(inputs))
        if self._independent is not None or self._device != "cuda" or size < SLICED_BYTES // SLICES_PER_INPUT:
            return
        self._rows = slices.length(native)
        with contextlib.suppress(ReferenceRaised):
            self._independent = not touched and slices.are_independent(self._forward, inputs, native)

    def _forward(self, inputs: list[Any]) -> Any:
        with of_the_reference():
            return self._placed(self.model(*inputs))

    def _wide_truth(self, wide: Any) -> Any:
        model = self.in_float64()
        stated = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            with of_the_reference():
                return model(*wide)
        except ReferenceRaised as raised:
            if "dtype" not in str(raised):
                raise
            with of_the_reference(), float64.WideCasts():  # type: ignore[no-untyped-call]
                return model(*wide)
        finally:
            torch.set_default_dtype(stated)

    def in_float64(self) -> Any:
        """Return the present instance in float64."""
        if self._model64 is None or self.changes:
            # Random values that the constructor draws besides parameters must be equal in both instances.
            torch.manual_seed(self.seed)
            self._model64 = self._constructed(self._arguments()).to(self._device).double()
            float64.widen_attributes(self._model64)
            self._model64.load_state_dict({name: float64.wide(t) for name, t in self.state().items()})
        return self._model64

    def _expected(
        self,
        inputs: list[Any],
        own: tuple[Any, Any],
        truth: Any,
        sequence: tolerance.Sequence | None,
        is_touched: bool = False,
    ) -> tolerance.Expected:
        """Return the expected output of a draw, with further right results of rounding and choices.

        For a reference that writes to inputs or state there are no further results, since each further run
        would see other values.
        """
        if is_touched or self._has_steps is False:
            return tolerance.Expected(*own, truth, sequence)
        displaced = steps.displacements(lambda: self.model(*inputs), lambda: self.truth(inputs))
        self._has_steps = displaced is not None
        if displaced is None:
            return tolerance.Expected(*own, truth, sequence)
        self._has_other_ways = True
        expected = tolerance.Expected(*own, truth, sequence, steps.rooms(truth, displaced.results, own))
        expected.is_undefined = displaced.is_undefined
        return expected

    def _chosen(self, seed: int, family: str, inputs: list[Any], writes: bool) -> tuple[Any, Any]:
        """Return two results of the reference: with the first and with the last of equal elements picked."""

        def run() -> Any:
            given = self._restored(seed, family) if writes else inputs
            return tree_map(torch.clone, self._placed(self.model(*given)))

        return ties.chosen_both_ways(run)

    def _in_sequence(self, inputs: list[Any]) -> tolerance.Sequence:
        return in_sequence(lambda: self._placed(self.model(*inputs)))

    def _placed(self, outputs: Any) -> Any:
        return tree_map(lambda t: t.to(self._device), outputs)

    def _restored(self, seed: int, family: str | None) -> list[Any]:
        """Restore the instance and return the inputs, both as before the reference wrote to them."""
        self.perturb(self.seed)
        inputs = self.inputs(seed, family)
        assert inputs is not None
        return inputs

    def _stated(self, seed: int) -> list[Any]:
        """Return inputs as `get_inputs` draws them.

        If `get_inputs` always returns equal inputs, which a candidate could foresee, they are varied.
        """
        draws = partial(drawn, self._space["get_inputs"], self._device)
        inputs = draws(seed)
        if self._fixed is None:
            again = zip(memory_guards.leaves(inputs), memory_guards.leaves(draws(seed + 1)), strict=True)
            self._fixed = all(one.shape == other.shape and torch.equal(one, other) for one, other in again)
        return (
            list(tree_map(partial(input_distributions.varied, seed=seed), inputs)) if self._fixed else inputs
        )
