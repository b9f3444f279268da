"""Checks in `forward` of the sizes that a file was not composed to vary in."""

from agent.compose.dims import Dim

MOST = 8
"""Maximum number of dimensions that are checked one by one. More than that are checked by shape."""


def checks(tensors: list[tuple[str, tuple[Dim, ...]]]) -> list[str]:
    """Return statements that raise where an input has a size at which the file need not be right.

    A dimension that was the same at all traced points is a constant of the file. Two dimensions that were
    equal at all of them are one size.
    """
    wanted: list[tuple[str, str]] = []
    first: dict[Dim, str] = {}
    for name, shape in tensors:
        for axis, size in enumerate(shape):
            text = f"{name}.shape[{axis}]"
            if len(set(size)) == 1:
                wanted.append((text, str(size[0])))
            elif size in first:
                wanted.append((text, first[size]))
            first.setdefault(size, text)
    if not wanted:
        return []
    said = ", ".join(f"{text} = {value}" for text, value in wanted)
    given, values = (", ".join(pair[at] for pair in wanted) for at in (0, 1))
    if len(wanted) > 1:
        given, values = f"({given})", f"({values})"
    return [
        f"if {given} != {values}:",
        f'    raise ValueError("these kernels were composed for {said}")',
    ]
