"""A draw within the limits of torch's own order of summation alone, and the same completed.

Another order takes as long as the rest of a draw, and only widens limits or shows that a draw tells nothing.
So an output within these strict limits is right whatever other orders give; for any other the draw is
completed.
"""

import torch

from agent.harness.truth import float64, tolerance
from agent.harness.truth.reference import Draw, Reference, tree_map


def drawn(reference: Reference, seed: int, family: str | None = None) -> Draw | None:
    """The inputs, which are let go while the truth is computed, and strict limits; None where the family
    changes nothing. For a reference that was seen to write to nothing; raises what it raises.
    """
    with torch.no_grad():
        inputs = reference.inputs(seed, family)
        if inputs is None:
            return None
        wide = tree_map(float64.wide, inputs)
        del inputs
        truth = reference.wide_truth(wide)
        del wide
        again = reference.inputs(seed, family)
        assert again is not None
        inputs, native, touched, overlaps = reference.run(seed, family, again)
        if touched:
            return reference.draw(seed, family)
        return Draw(inputs, tolerance.Expected(native, native, truth), overlaps)


def completed(reference: Reference, draw: Draw, seed: int, family: str | None) -> Draw:
    """The draw of this seed and family with the limits that every order gives."""
    whole = reference.full(seed, family, draw.inputs, draw.expected.truth)
    assert whole is not None
    return whole
