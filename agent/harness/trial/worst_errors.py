"""Largest errors of all draws so far."""

from typing import Any

from agent.records import Correctness


def after(known: Correctness, draws: int, verdict: dict[str, Any]) -> Correctness:
    """Return `known` updated with the oracle's answer to the latest draw, the `draws`-th."""
    return Correctness(
        draws=draws,
        max_abs_err=max(known.max_abs_err or 0.0, verdict["max_abs_err"]),
        max_rel_err=max(known.max_rel_err or 0.0, verdict["max_rel_err"]),
        error_budget_ratio=max(known.error_budget_ratio or 0.0, verdict["ratio"]),
        native_max_abs_err=max(known.native_max_abs_err or 0.0, verdict["native_error"]),
    )
