"""Locations of the shipped files: beside the package in a checkout, inside it in a wheel."""

from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).resolve().parent


def folder(kind: Literal["prompts", "references", "recorded", "docs"]) -> Path:
    """Return the directory of shipped prompts, references, recorded runs or documentation pages."""
    shipped = _PACKAGE / "_shipped" / kind
    if shipped.is_dir():
        return shipped
    return _PACKAGE.parent / ("runs/recorded" if kind == "recorded" else kind)
