"""No operator is run on values that a GPU would assert inside a kernel, whatever a wrong reference computes.

No GPU is needed: `Asserts` stands below the tests of `preconditions.checked` and sees every operator that
they let through. An operator that fails on a CPU for the values it is given, and for no other reason, is one
that ends the context of a GPU.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from diagnosis.labels import PROBLEMS
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from agent.diagnosis import preconditions
from agent.diagnosis.mismatch import hypotheses, samples
from agent.diagnosis.mismatch.searching import FAILING
from agent.diagnosis.wrong_references import Facts
from agent.harness.mutation import mutation_testing
from agent.harness.oracle import explanation
from agent.harness.truth.reference import Reference
from agent.records import Finding

Tensor = torch.Tensor
HARMLESS = {
    "_convert_indices_from_csr_to_coo", "_embedding_bag_backward", "_embedding_bag_dense_backward",
    "_embedding_bag_per_sample_weights_backward", "_segment_reduce_backward", "adaptive_max_pool2d_backward",
    "adaptive_max_pool3d_backward", "fractional_max_pool2d_backward", "fractional_max_pool3d_backward",
    "max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward",
    # Above: gradients of a run that was right, with the indices of that run. Below: targets are no places.
    "binary_cross_entropy_backward", "binary_cross_entropy_with_logits", "huber_loss", "huber_loss_backward",
    "mse_loss", "mse_loss_backward", "smooth_l1_loss", "smooth_l1_loss_backward", "soft_margin_loss",
    "soft_margin_loss_backward", "set", "_spdiags",
    # Below: written to, not read.
    "_cummax_helper", "_cummin_helper",
    # Below: raised on the host on every device, or of other devices.
    "_validate_compressed_sparse_indices", "miopen_ctc_loss", "_nested_view_from_buffer",
    "_nested_view_from_buffer_copy", "_nested_view_from_jagged_copy",
    "_scaled_dot_product_fused_attention_overrideable_backward",
    # Below: a mask of the operator's own says which places are read.
    "_unsafe_masked_index", "_unsafe_masked_index_put_accumulate",
}  # fmt: skip
"""Operators that take a tensor called like an index, and fail for none of its values inside a kernel."""
PLACES = ("ind", "idx", "target", "offs", "repeats", "lengths", "sorter", "source", "samples")
"""Parts of the names of arguments that hold places, classes, counts or bounds."""


class Asserted(BaseException):
    """A kernel's assertion has failed; nothing of the search catches that."""


class Asserts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Raises Asserted where an operator fails for the values of its operands."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise the first operator imports torch's compiler.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        try:
            return func(*args, **kwargs)
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            raise
        except Exception as error:
            if any(_runs(func, args, kwargs, value) for value in (0, 1)):
                raise Asserted(f"{func}: {error}") from error
            raise


def _runs(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: int) -> bool:
    """Return True if the operator takes such operands, with this value in each element."""
    args, kwargs = tree_map_only(Tensor, lambda t: torch.full_like(t, value), (args, kwargs))
    try:
        func(*args, **kwargs)
    except Exception:  # noqa: BLE001 - an operator may raise anything
        return False
    return True


@pytest.fixture(autouse=True)
def _as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are tested on a CPU as well."""
    monkeypatch.setattr(preconditions, "CHECKS_ITSELF", frozenset())


def _reference(problem: str) -> Reference:
    reference = Reference(PROBLEMS / f"{problem}.py", "cpu")
    reference.perturb(3)
    return reference


@pytest.mark.parametrize(
    "problem",
    ["embedding_position", "gather_middle", "scatter_mean", "cross_entropy", "nll_map", "hashed_embedding",
     "max_unpool"],
)  # fmt: skip
def test_no_wrong_reference_fails_inside_a_kernel(problem: str) -> None:
    reference = _reference(problem)
    draw = reference.draw(4)
    assert draw is not None
    refused = 0
    with Asserts(), preconditions.checked(draw.inputs), torch.no_grad():  # type: ignore[no-untyped-call]
        case, facts = explanation.case(reference, draw, draw.expected.native, ""), Facts.of("")
        tape = case.tape()
        kinds = (
            hypotheses.early(case, tape, facts),
            hypotheses.late(tape, facts),
            hypotheses.mutated(tape, facts),
        )
        for hypothesis in (one for kind in kinds for one in kind):
            try:
                hypothesis.outputs()
            except preconditions.Unmet:
                refused += 1
            except FAILING:
                pass
    assert refused, "nothing was out of range, so that nothing is shown"


def test_without_the_tests_of_values_a_wrong_reference_does_fail_inside_a_kernel() -> None:
    reference = _reference("embedding_position")
    draw = reference.draw(4)
    assert draw is not None
    case = explanation.case(reference, draw, draw.expected.native, "")
    with Asserts(), torch.no_grad():  # type: ignore[no-untyped-call]
        made = list(hypotheses.mutated(case.tape(), Facts.of("")))
        with pytest.raises(Asserted):
            [hypothesis.outputs() for hypothesis in made]


ROWS = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8)

    def forward(self, index, x):
        return self.table(index) * x.sigmoid() + self.table((x.abs() * 9).long().clamp(max=49)).sum(1)


def get_inputs():
    return [torch.randint(0, 50, (6,)), torch.randn(6, 8)]


def get_init_inputs():
    return []
"""


def _answers(model: Any, index: Tensor, x: Tensor) -> Iterator[Tensor]:
    rest = model.table((x.abs() * 9).long().clamp(max=49)).sum(1)
    yield model.table((index + 1) % 50) * x.sigmoid() + rest
    yield model.table(index) * x.sigmoid()
    yield model.table.weight[:6] * x.sigmoid() + rest


def test_every_wrong_answer_of_an_embedding_is_explained_without_a_failed_kernel(tmp_path: Any) -> None:
    (tmp_path / "reference.py").write_text(ROWS)
    reference = Reference(tmp_path / "reference.py", "cpu")
    reference.perturb(3)
    draw = reference.draw(4)
    assert draw is not None
    with torch.no_grad():
        answers = list(_answers(reference.model, *draw.inputs))
    for answer in answers:
        found = Finding.model_validate(draw.expected.compare(answer)["finding"])
        with Asserts():  # type: ignore[no-untyped-call]
            told = explanation.Explaining(reference, "", found).of_values(draw, answer)
        assert told["finding"]["message"]


TABLE = """
import torch


class Model(torch.nn.Module):
    def forward(self, index, table):
        return table[index]


def get_inputs():
    return [torch.randperm(64), torch.randn(64, 8)]


def get_init_inputs():
    return []
"""


def test_a_table_that_is_cut_as_if_it_held_samples_is_no_sample(tmp_path: Any) -> None:
    """The first samples of a case have indices that point beyond the first rows of its table."""
    (tmp_path / "reference.py").write_text(TABLE)
    reference = Reference(tmp_path / "reference.py", "cpu")
    reference.perturb(3)
    draw = reference.draw(4)
    assert draw is not None
    case = explanation.case(reference, draw, draw.expected.native.roll(1, 0), "")
    for context in (contextlib.nullcontext(), preconditions.checked(draw.inputs)):
        with context:
            cut = samples.part(case, 256)
        assert cut is not None
        # The table is whole, and the indices alone are cut.
        assert [len(t) for t in cut.inputs] == [len(cut.truth[0]), 64]


def test_the_wrong_answers_that_admit_a_problem_fail_in_no_kernel(tmp_path: Any) -> None:
    (tmp_path / "reference.py").write_text(ROWS.replace(".clamp(max=49)", "").replace("* 9", "* 9 % 50"))
    with Asserts():  # type: ignore[no-untyped-call]
        assert mutation_testing.probe(Reference(tmp_path / "reference.py", "cpu"), 77)["tried"]


X, WHOLE = torch.rand(4, 3), torch.arange(3)
UNMET: dict[str, Callable[[], Any]] = {
    "embedding": lambda: F.embedding(WHOLE + 2, X),
    "negative": lambda: F.embedding(WHOLE - 1, X),
    "bag": lambda: F.embedding_bag(WHOLE + 2, X, WHOLE),
    "offsets": lambda: F.embedding_bag(WHOLE, X, torch.tensor([0, 9])),
    "gather": lambda: X.gather(0, WHOLE[None] + 2),
    "index_select": lambda: X.index_select(0, WHOLE + 2),
    "index": lambda: X[:, WHOLE + 1],
    "index beside a mask": lambda: X[X[:, 0] >= 0][:, WHOLE - 4],
    "index_put": lambda: X.clone().index_put_((WHOLE + 2,), X[0]),
    "index_add": lambda: X.index_add(0, WHOLE + 2, X[:3]),
    "index_copy": lambda: X.index_copy(0, WHOLE + 2, X[:3]),
    "index_fill": lambda: X.index_fill(0, WHOLE + 2, 1.0),
    "index_reduce": lambda: X.index_reduce(0, WHOLE + 2, X[:3], "amax"),
    "take": lambda: X.take(WHOLE + 10),
    "put": lambda: X.clone().put_(WHOLE + 10, X[0]),
    "scatter": lambda: X.scatter(1, WHOLE[:, None] + 1, 1.0),
    "scatter_add": lambda: X.scatter_add(1, WHOLE[:, None] + 1, X),
    "scatter_reduce": lambda: X.scatter_reduce(1, WHOLE[:, None] + 1, X, "sum"),
    "nll_loss": lambda: F.nll_loss(X[:3], WHOLE + 1),
    "nll_loss2d": lambda: F.nll_loss(X[None, :, :, None], WHOLE[None, :, None] + 2),
    "cross_entropy": lambda: F.cross_entropy(X[:3], WHOLE - 1),
    "multi_margin_loss": lambda: F.multi_margin_loss(X[:3], WHOLE + 1),
    "multilabel_margin_loss": lambda: F.multilabel_margin_loss(X[:3], WHOLE.expand(3, 3) + 1),
    "ctc_loss": lambda: F.ctc_loss(torch.rand(6, 1, 3), WHOLE[None] + 1, (6,), (3,)),  # type: ignore[arg-type]
    "max_unpool": lambda: F.max_unpool2d(X[None], torch.full((1, 4, 3), 99), 2),  # type: ignore[arg-type]
    "fractional_max_pool": lambda: F.fractional_max_pool2d(
        torch.rand(1, 1, 8, 8), 2, 3, _random_samples=torch.full((1, 1, 2), 5.0)
    ),
    "repeat_interleave": lambda: X.repeat_interleave(torch.tensor([1, -1, 1, 1]), 0),
    "masked_scatter": lambda: X.masked_scatter(X >= 0, X[0]),
    "bernoulli": lambda: torch.bernoulli(X + 1),
    "multinomial": lambda: torch.multinomial(-X, 1),
    "no weights": lambda: torch.multinomial(X * 0, 1),
    "poisson": lambda: torch.poisson(-1 - X),
    "binary_cross_entropy": lambda: F.binary_cross_entropy(X + 1, X),
    "not a number": lambda: F.binary_cross_entropy(X * torch.nan, X),
    "floor_divide": lambda: WHOLE // WHOLE,
    "rounded": lambda: WHOLE.div(WHOLE, rounding_mode="trunc"),
    "remainder": lambda: 5 % WHOLE,
    "segment_reduce": lambda: torch.segment_reduce(X, "sum", lengths=torch.tensor([5, -1]), axis=0),
    "searchsorted": lambda: torch.searchsorted(X[0], X[0], sorter=WHOLE + 1),
    "sparse": lambda: torch.sparse_coo_tensor(WHOLE[None], X[0], (2,)),
    "assertion": lambda: torch._assert_async(WHOLE[0]),
}
MET: dict[str, Callable[[], Any]] = {
    "padding": lambda: F.embedding(WHOLE, X, padding_idx=0),
    "bag": lambda: F.embedding_bag(WHOLE, X, torch.tensor([0, 0, 3])),
    "from the end": lambda: X[WHOLE - 4, WHOLE - 3],
    "beside a mask": lambda: X[None][:, X > 2],
    "none": lambda: X[WHOLE[:0]],
    "no rows": lambda: F.embedding(WHOLE[:0], X[:0]),
    "ignored": lambda: F.cross_entropy(X[:3], WHOLE - 100 * (WHOLE == 0)),
    "ignored class": lambda: F.nll_loss(X[:3], WHOLE, ignore_index=2),
    "labels": lambda: F.multilabel_margin_loss(X[:3], WHOLE.expand(3, 3) - 1),
    "padded labels": lambda: F.ctc_loss(torch.rand(6, 1, 3), torch.tensor([[1, 2, -7]]), (6,), (2,)),  # type: ignore[arg-type]
    "fractions": lambda: 5.0 % WHOLE + WHOLE / WHOLE,
    "repeated": lambda: X.repeat_interleave(WHOLE + 1, 1, output_size=6),
    "one number": lambda: torch.tensor(1.0).index_select(0, torch.tensor([0])),
    "certain": lambda: torch.bernoulli(X.round()) + F.binary_cross_entropy(X.round(), X),
    "masked": lambda: X.masked_scatter(X > 2, X[0]),
}


@pytest.mark.parametrize("name", UNMET)
def test_an_operator_is_not_run_on_values_that_it_does_not_accept(name: str) -> None:
    with preconditions.checked([X]), pytest.raises(preconditions.Unmet):
        UNMET[name]()


@pytest.mark.parametrize("name", MET)
def test_an_operator_runs_on_values_that_it_accepts(name: str) -> None:
    with Asserts(), preconditions.checked([X]):  # type: ignore[no-untyped-call]
        MET[name]()


def test_every_operator_that_takes_places_is_known() -> None:
    """Operators that consist of others are tested as those."""
    unknown = {
        name for name, arguments in _taking_places() if name not in preconditions.CHECKS and arguments
    } - HARMLESS
    assert unknown == set()


def _taking_places() -> Iterator[tuple[str, list[str]]]:
    """Each operator of torch that a device implements, with its arguments that are called like places."""
    for full in torch._C._dispatch_get_all_op_names():
        space, _, name = full.partition("::")
        keys = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
        if space != "aten" or not any(
            torch._C._dispatch_has_kernel_for_dispatch_key(full, key) for key in keys
        ):
            continue
        base, _, overload = name.partition(".")
        schema = torch._C._get_schema(f"aten::{base}", overload)
        taken = [
            a.name for a in schema.arguments if "Tensor" in str(a.type) and not (a.alias_info or a.is_out)
        ]
        yield base.rstrip("_") or base, [name for name in taken if any(part in name for part in PLACES)]


def test_values_are_not_tested_twice_on_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with preconditions.checked([X]), pytest.raises(IndexError):
        F.embedding(WHOLE + 2, X)
