"""What each size is, learnt from traces of references made for it."""

import pytest
from problems.references import reference, scaling

from agent.problems.planning import Limits
from agent.problems.roles import Dimension, Role

CONVOLUTION = {
    "sizes": "batch, channels, features = 16, 24, 40\nheight, width, kernel = 64, 96, 5",
    "arguments": "channels, features, kernel",
    "init": "self.conv = nn.Conv2d(channels, features, kernel, padding=2)",
    "given": "channels, features, kernel",
    "forward": "return self.conv(x)",
    "inputs": "torch.rand(batch, channels, height, width)",
}


def dimensions(source: str) -> tuple[Dimension, ...]:
    return scaling(source).dimensions


def roles(**parts: str) -> dict[str, Role]:
    return {name: one.role for one in dimensions(reference(**parts)) for name in one.names}


def test_a_convolution_has_a_batch_space_and_channels_and_its_kernel_is_no_dimension() -> None:
    assert roles(**CONVOLUTION) == {
        "batch": Role.BATCH,
        "channels": Role.CONSTRUCTOR,
        "features": Role.CONSTRUCTOR,
        "height": Role.SPACE,
        "width": Role.SPACE,
    }
    made = dimensions(reference(**CONVOLUTION))
    assert {one.value: one.space for one in made} == {16: 0, 24: 0, 40: 0, 64: 2, 96: 2}


def test_what_a_pool_keeps_apart_is_free() -> None:
    found = roles(
        sizes="n, c, length, window = 8, 48, 4096, 6",
        forward="return F.avg_pool1d(x, window)",
        inputs="torch.rand(n, c, length)",
    )
    assert found == {"n": Role.BATCH, "c": Role.FREE, "length": Role.SPACE}


@pytest.mark.parametrize(
    ("forward", "reduced"),
    [
        ("return torch.softmax(x, dim=-1)", {"columns"}),
        ("return x.cumsum(1)", {"rows"}),
        ("return x.amax(dim=(1, 2))", {"rows", "columns"}),
        ("return F.layer_norm(x, x.shape[1:])", {"rows", "columns"}),
        ("return x.norm()", {"n", "rows", "columns"}),
        ("return torch.cat([x, x], dim=2)", set()),
        ("return x.transpose(1, 2).tanh()", set()),
    ],
)
def test_what_is_summed_normalised_or_scanned_over_is_reduced(forward: str, reduced: set[str]) -> None:
    found = roles(
        sizes="n, rows, columns = 12, 36, 1000", forward=forward, inputs="torch.rand(n, rows, columns)"
    )
    assert {name for name, role in found.items() if role is Role.REDUCED} == reduced
    assert ("n" in reduced) or found["n"] is Role.BATCH


def test_rows_of_a_linear_layer_are_no_batch() -> None:
    found = roles(
        sizes="rows, wide, narrow = 128, 4096, 96",
        arguments="wide, narrow", given="wide, narrow", init="self.line = nn.Linear(wide, narrow)",
        forward="return self.line(x)", inputs="torch.rand(rows, wide)",
    )  # fmt: skip
    assert found == {"rows": Role.FREE, "wide": Role.CONSTRUCTOR, "narrow": Role.CONSTRUCTOR}


def test_dimensions_of_a_product_of_inputs_are_alike_and_a_vector_is_summed_over() -> None:
    product = roles(
        sizes="m, k, n = 512, 256, 128", forward="return x @ given[1]",
        inputs="torch.rand(m, k), torch.rand(k, n)",
    )  # fmt: skip
    assert set(product.values()) == {Role.FREE}
    vector = roles(
        sizes="m, k = 512, 256", forward="return x @ given[1]", inputs="torch.rand(m, k), torch.rand(k, 1)"
    )
    assert vector == {"m": Role.FREE, "k": Role.REDUCED}


def test_sizes_inside_get_inputs_and_defaults_change_together_where_they_have_to() -> None:
    found = dimensions(
        reference(
            sizes="classes = 80",
            arguments="classes, extent=28, depth=2",
            given="classes",
            init="self.line = nn.Linear(3 * extent * extent, classes)",
            forward="return self.line(x.flatten(1))",
            inputs="torch.rand(64, 3, 28, 28)",
        )
    )
    assert [(one.names, one.role) for one in found] == [
        (("classes",), Role.CONSTRUCTOR),
        (("get_inputs[0]",), Role.BATCH),
        (("get_inputs[2]", "get_inputs[3]", "Model(extent)"), Role.DEFAULT),
    ]


def test_a_bound_of_random_integers_follows_the_size_that_it_has_to_fit() -> None:
    found = dimensions(
        reference(
            sizes="n, classes, seed, wide = 32, 500, 500, 40",
            forward="return F.cross_entropy(x, given[1])",
            inputs="torch.rand(n, classes), torch.randint(0, 500, (n,))",
        )
    )
    joined = next(one for one in found if "classes" in one.names)
    assert joined.names == ("classes", "get_inputs[0]")
    assert {name for one in found for name in one.names} == {"n", "classes", "get_inputs[0]"}, (
        "`seed` and `wide` show nowhere"
    )


def test_equal_sizes_of_one_role_stay_equal_and_those_of_others_do_not() -> None:
    square = reference(
        **{**CONVOLUTION, "sizes": "batch = channels = 16\nfeatures, kernel = 64, 5\nheight, width = 64, 64"}
    )
    assert [(one.names, one.role) for one in dimensions(square)] == [
        (("batch",), Role.CONSTRUCTOR),
        (("features",), Role.CONSTRUCTOR),
        (("height", "width"), Role.SPACE),
    ], "one number for the batch and the channels"
    apart = reference(
        **{**CONVOLUTION, "sizes": "batch, channels, features, kernel = 8, 16, 64, 5\nheight, width = 64, 64"}
    )
    assert ("height", "width") in [one.names for one in dimensions(apart)]
    assert ("features",) in [one.names for one in dimensions(apart)]


def test_sizes_whose_ratio_has_to_stay_are_one_dimension() -> None:
    """A transposed convolution doubles the width, and what normalises over it has as many elements."""
    made = scaling(
        reference(
            sizes="batch, channels, features, width = 8, 24, 80, 40",
            arguments="channels, features",
            given="channels, features",
            init="up = nn.ConvTranspose1d(channels, features, 4, 2, 1)\n"
            "self.both = nn.Sequential(up, nn.LayerNorm(features))",
            forward="return self.both(x)",
            inputs="torch.rand(batch, channels, width)",
        )  # fmt: skip
    )
    (joined,) = [one for one in made.dimensions if "width" in one.names]
    assert joined == Dimension(("features", "width"), 80, Role.CONSTRUCTOR, 0, ("width",), 2)
    assert joined.sizes(32) == {"features": 32, "width": 16}
    least = made.least(Limits(max_elements=5_000, max_macs=10**6))
    assert least is not None
    assert least.modulus is not None
    assert least.sizes["features"] == (80, 2 * least.sizes["width"][1])
    assert least.sizes["width"][1] < 40
    assert (40 - least.sizes["width"][1]) % least.modulus == 0


def test_the_strides_of_a_view_are_no_window() -> None:
    found = roles(
        sizes="n, wide = 12, 96",
        forward="return x.as_strided((x.shape[1], x.shape[0]), (1, x.shape[1]))",
        inputs="torch.rand(n, wide)",
    )
    assert found.keys() == {"n", "wide"}
