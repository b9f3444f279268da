"""Wrong references: each is the reference with one common fault, made from the operators that it runs.

A rule yields the faults that one operator call can have. Rules are registered by the operator's name.
`Tape.again` computes every variant in float64.
"""

from agent.diagnosis.wrong_references import (  # noqa: F401 - importing registers the rules
    activations,
    adaptive,
    affine,
    arithmetic,
    borders,
    conv_geometry,
    convolutions,
    divisors,
    gathering,
    grids,
    interpolation,
    layouts,
    losses,
    masks,
    normalising,
    online,
    operands,
    orders,
    padded_tiles,
    pooling,
    products,
    reductions,
    scans,
    scattering,
    selecting,
    signal_windows,
    softmaxes,
    states,
    statistics,
    steps,
    triangles,
    vector_norms,
    weighted_losses,
)
from agent.diagnosis.wrong_references.rules import Facts, Site, Variant, list_variants

__all__ = ["Facts", "Site", "Variant", "list_variants"]
