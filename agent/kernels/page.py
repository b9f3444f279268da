"""Page docs/kernels.md, rendered from the kernel.json files.

Write it with `python -m agent.kernels.page > docs/kernels.md`. The page only has figures that a command has
measured, and verdicts.
"""

import sys
from collections.abc import Iterator

from agent.kernels import manifest, sources
from agent.kernels.manifest import Manifest, Measured, Times, Verified

_HEAD = """\
# The shipped kernels

Rendered from the `kernel.json` of each kernel by `python -m agent.kernels.page`; those are written by
`agent kernels verify|bench|promote` alone. How they are used, and what happens outside their envelope:
[their guide](guides/using-the-kernels.md). What was tried and did not work: [log.md](log.md).

**Up to commit 13c9848 rows show torch.compile slower than it is**, but for the first of each kernel: the
cases of a kernel share one function, which torch compiles for dynamic sizes from the second shape on and
leaves to eager after eight. Since then each case is compiled anew.

A verdict is on a kernel's files of its day: whether it speaks for the present ones says `agent kernels list`.
At the shapes of models all kernels are timed in [their sweep](kernels-sweep.md); in value and gradient they
were compared with torch on GPUs (`tests/gpu`).

![Times of the kernels beside torch.compile, eager and the floor](kernels.svg)
"""


_COLUMNS = (
    "shape", "dtype", "setting", "kernel ms", "eager ms", "compile ms", "ratio, 95 %", "of the floor",
    "error, rms", "torch's", "GPU, torch, date",
)  # fmt: skip


def render() -> str:
    """Return the whole page."""
    return (
        "\n".join([_HEAD, *(line for name in sources.NAMES for line in _kernel(manifest.load(name)))]) + "\n"
    )


def _kernel(known: Manifest) -> Iterator[str]:
    yield f"## {known.name}\n"
    yield f"Version {known.version}, {known.source}. Storage: {', '.join(known.dtypes) or 'unknown'}.\n"
    yield from (f"- {words}" for words in known.envelope)
    yield ""
    yield from (f"    {schema}" for schema in known.operators)
    yield ""
    yield from _verdicts(known.verified)
    yield from _times(known.measured)


def _verdicts(verified: tuple[Verified, ...]) -> Iterator[str]:
    if not verified:
        yield "Not verified yet.\n"
        return
    yield "| verdict | judge | on | largest error | of the budget | date |"
    yield "|---|---|---|---|---|---|"
    for one in verified:
        share = "" if one.error_budget_ratio is None else f"{one.error_budget_ratio:.0%}"
        error = "" if one.max_abs_err is None else f"{one.max_abs_err:.3g}"
        yield f"| {one.status} | {one.verifier_version} | {one.scope} | {error} | {share} | {one.date} |"
    yield ""


def _times(measured: tuple[Measured, ...]) -> Iterator[str]:
    if not measured:
        yield "Timed in the sweep alone.\n"
        return
    yield f"| {' | '.join(_COLUMNS)} |"
    yield "|---" * len(_COLUMNS) + "|"
    for one in measured:
        ratio = "" if one.ratio_ci is None else f"{one.ratio_ci[0]:.2f} to {one.ratio_ci[1]:.2f}"
        share = "" if one.roofline_fraction is None else f"{one.roofline_fraction:.0%}"
        errors = [
            _error(one.max_abs_err, one.rms_err), _error(one.native_max_abs_err, one.native_rms_err)
        ]  # fmt: skip
        cells = [
            str(list(one.shape)), one.dtype, one.setting, _middle(one.candidate_ms), _middle(one.eager_ms),
            _middle(one.compile_ms), ratio, share, *errors, f"{one.gpu}, {one.torch}, {one.date}",
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield from _rivals(measured)


def _rivals(measured: tuple[Measured, ...]) -> Iterator[str]:
    rows = [(one, name, rival) for one in measured for name, rival in one.rivals.items()]
    if not rows:
        return
    yield "Beside it in the same runs:\n"
    yield "| shape | setting | way | ms | the kernel's | error, rms | the kernel's |"
    yield "|---|---|---|---|---|---|---|"
    for one, name, rival in rows:
        errors = [_error(rival.max_abs_err, rival.rms_err), _error(one.max_abs_err, one.rms_err)]
        times = [_middle(rival.ms), _middle(one.candidate_ms)]
        yield f"| {' | '.join([str(list(one.shape)), one.setting, name, *times, *errors])} |"
    yield ""


def _error(largest: float | None, rms: float | None) -> str:
    """Return the largest and the rms error as `2.7e-06, 3.3e-07`; empty if neither is known."""
    return ", ".join(f"{error:.2g}" for error in (largest, rms) if error is not None)


def _middle(times: Times | None) -> str:
    return "" if times is None else f"{times.p50:.4g}"


if __name__ == "__main__":
    sys.stdout.write(render())
