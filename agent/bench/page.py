"""Rendering of a report as Markdown, CSV and one HTML file. Computes no figures."""

import csv
import io
from collections.abc import Iterable, Sequence

from agent.bench import plots
from agent.bench.compare import DOUBT, Comparison
from agent.bench.estimates import Estimate
from agent.bench.outcome import BEST, Outcome
from agent.bench.report import Group, Report
from agent.records import BASELINES

METHOD = """\
- **verified**: compiled, judged on secret inputs against a float64 result, computed by kernels of its own;
  what each verdict covers is listed under its scope. A kernel verified on the emulator is not timed.
- **solved**: share of problems with a verified kernel in any run; Wilson's 95 % interval.
- **pass@k**: chance that one of k runs has a verified kernel, 1 - C(n-c, k) / C(n, k) (Chen et al. 2021,
  arXiv:2107.03374), averaged over problems.
- **fast_p**: share of problems whose kernel is verified and more than p times as fast as the baseline (Ouyang
  et al. 2025, arXiv:2502.10517); with several runs of a problem, their mean.
- **best**: the fastest of the baselines that were timed beside the kernel in the same sitting, at the same
  precision.
- Means of speedups are geometric; intervals are 95 %, by percentile bootstrap over problems.
"""


def markdown(report: Report) -> str:
    """Return the whole report as one Markdown document."""
    asked = report.bench.asked
    lines = [
        f"# {asked.suite}",
        "",
        f"{len(asked.cases)} problems, {asked.samples} run{'s' if asked.samples > 1 else ''} of each; "
        f"{_who(report)}; {', '.join(report.gpus) or 'not timed: no GPU'}; "
        f"begun {report.created:%Y-%m-%d %H:%M} UTC.",
        "",
        *sections(report),
    ]
    return "\n".join([*lines, "", "## Method", "", METHOD])


def sections(report: Report) -> list[str]:
    """Return the figures as Markdown lines."""
    lines = _table(("", *(group.name for group in report.groups)), figures(report.groups))
    for speeds in report.whole.speeds:
        against = "the best baseline" if speeds.baseline == BEST else speeds.baseline
        lines += ["", f"## Speed against {against}", ""]
        rows = [(f"fast_{p}", percent(fast)) for p, fast in speeds.fast.items()]
        lines += _table(("", report.whole.name), [("geometric mean", times(speeds.geometric_mean)),
                                                 ("median", times(speeds.median)), *rows])  # fmt: skip
    if report.whole.causes:
        lines += ["", "## Without a verified kernel", ""]
        lines += _table(("runs", "why"), [(str(n), cell(why)) for why, n in report.whole.causes.items()])
    if report.scopes:
        lines += ["", "## What the verdicts cover", ""]
        lines += _table(("kernels", "scope"), [(str(n), cell(scope)) for scope, n in report.scopes.items()])
    return [*lines, "", "## Every problem", "", *_table(*_each(report))]


def _who(report: Report) -> str:
    asked = report.bench.asked
    if asked.candidates:
        return f"given answers from {asked.candidates}"
    provider, model = asked.flags.get("provider"), asked.flags.get("model")
    return " ".join(str(word) for word in (provider or "the configured provider", model) if word)


def figures(groups: Sequence[Group]) -> Iterable[tuple[str, ...]]:
    """Yield the name of each figure, followed by its value for each group."""
    yield ("problems", *(str(group.problems) for group in groups))
    yield ("runs", *(str(group.samples) for group in groups))
    yield ("runs with a verified kernel", *(str(group.verified) for group in groups))
    yield ("solved", *(percent(group.solved) for group in groups))
    yield ("first answer verified", *(percent(group.first_answer) for group in groups))
    for k in dict.fromkeys(k for group in groups for k in group.pass_at):
        yield (f"pass@{k}", *(percent(group.pass_at.get(k)) for group in groups))
    for baseline in (BEST, *BASELINES):
        found = [next((s for s in group.speeds if s.baseline == baseline), None) for group in groups]
        if any(found):
            name = f"speed against {baseline}, geometric mean"
            yield (name, *(times(speeds.geometric_mean if speeds else None) for speeds in found))
    yield ("share of the roofline, median", *(percent(group.roofline) for group in groups))
    yield ("tokens", *(f"{group.spending.tokens:,}" for group in groups))
    yield ("cost", *(f"${group.spending.cost_usd:.2f}" for group in groups))
    yield ("hours of judging", *(f"{group.spending.judging_hours:.2f}" for group in groups))
    yield ("hours of a GPU", *(f"{group.spending.gpu_hours:.2f}" for group in groups))
    for name, form in (("tokens", "{:,.0f}"), ("cost_usd", "${:.3f}"), ("gpu_hours", "{:.4f}")):
        words = {"tokens": "tokens", "cost_usd": "cost", "gpu_hours": "GPU-hours"}[name]
        for kind, per in (("verified", "per_verified"), ("faster", "per_faster")):
            values = [getattr(group.spending, per).get(name) for group in groups]
            if any(values):
                yield (f"{words} for each {kind} kernel", *(form.format(v) if v else "-" for v in values))


SHOWN = ("eager", "compile", "graph")
"""Baselines that always have a column, timed or not."""


def _each(report: Report) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the column heads and a row for each run. Baselines outside SHOWN have a column only if timed."""
    timed = {name for one in report.outcomes for name in one.times_ms}
    shown = [name for name in BASELINES if name in SHOWN or name in timed]
    heads = ("problem", "run", "came to", "attempts", "against best", *shown, "roofline", "why")
    return heads, [_row(one, shown) for one in report.outcomes]


def _row(one: Outcome, shown: Sequence[str]) -> tuple[str, ...]:
    speeds = (f"{speed:.2f}x" if (speed := one.speedup(name)) else "-" for name in (BEST, *shown))
    roofline = f"{100 * one.roofline:.0f} %" if one.roofline is not None else "-"
    return (
        cell(one.address), str(one.sample), one.ending, str(one.attempts), *speeds, roofline, cell(one.reason)
    )  # fmt: skip


def comparison(found: Comparison, a: str, b: str) -> str:
    """Return the comparison as Markdown."""
    lines = [f"# {b} against {a}", "", f"{found.common} problems in both.", ""]
    lines += [f"- {cell(remark)}" for remark in found.remarks]
    verdict = "beyond noise" if found.solved_p < DOUBT else "within noise"
    lines += [
        f"- solved by {a} alone: {len(found.only_a)}, by {b} alone: {len(found.only_b)} "
        f"(p = {found.solved_p:.3f}, {verdict})"
    ]
    if found.ratio is not None:
        apart = "within" if found.ratio.low <= 1 <= found.ratio.high else "beyond"
        lines += [
            f"- speed of {b} over {a}: {times(found.ratio)} over {found.ratio.n} problems, {apart} noise"
        ]
    if found.changes:
        rows = [
            (cell(change.address), f"{change.ratio:.2f}x", "yes" if change.beyond_noise else "no")
            for change in found.changes
        ]
        lines += ["", *_table(("problem", "speed", "beyond noise"), rows)]
    for name, alone in ((a, found.only_a), (b, found.only_b)):
        if alone:
            lines += ["", f"Solved by {name} alone: {', '.join(map(cell, alone))}."]
    return "\n".join([*lines, ""])


def table(report: Report) -> str:
    """Return every run as one line of CSV."""
    out = io.StringIO()
    names = list(Outcome.model_fields)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*names, *(f"speedup_{name}" for name in (BEST, *BASELINES))])
    for one in report.outcomes:
        values = one.model_dump(mode="json")
        speeds = (one.speedup(name) for name in (BEST, *BASELINES))
        writer.writerow(
            [_plain(values[name]) for name in names] + [s if s is not None else "" for s in speeds]
        )
    return out.getvalue()


def _plain(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, dict):
        return " ".join(f"{key}={part}" for key, part in value.items())
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@"):
        # Text from an endpoint or a problem's name must not become a formula in a spreadsheet.
        return f"'{value}"
    return value


def html(report: Report) -> str:
    """Return one HTML file with plots that opens from disk and fetches nothing."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    heads, rows = _each(report)
    pages = Environment(
        loader=PackageLoader("agent.bench"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return pages.get_template("report.html").render(
        report=report, who=_who(report), heads=heads, rows=zip(report.outcomes, rows, strict=True),
        figures=list(figures(report.groups)), curves=plots.curves(report), ladder=plots.ladder(report),
        percent=percent, times=times, method=METHOD,
    )  # fmt: skip


def percent(found: Estimate | None) -> str:
    """Format a share with its interval."""
    if found is None:
        return "-"
    return f"{100 * found.value:.0f} % ({100 * found.low:.0f} to {100 * found.high:.0f})"


def times(found: Estimate | None) -> str:
    """Format a speedup with its interval."""
    return "-" if found is None else f"{found.value:.2f}x ({found.low:.2f} to {found.high:.2f})"


def cell(text: str) -> str:
    """Escape text so that it stays in its cell of a Markdown table and is not read as markup."""
    short = " ".join(text.split())[:200]
    return short.translate({ord(mark): f"&#{ord(mark)};" for mark in "\\|<`*[]&"})


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(heads) + " |",
        "|" + "---|" * len(heads),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
