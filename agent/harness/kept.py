"""What is worked out once for each problem and kept in the user's cache."""

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from agent.records import Record

R = TypeVar("R", bound=Record)


def kept(file: Path, kind: type[R], make: Callable[[], R]) -> R:
    """The record in `file`; made and written where there is none that can be read."""
    try:
        return kind.model_validate_json(file.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        made = make()
    file.parent.mkdir(parents=True, exist_ok=True)
    # Another thread or process may be making the same.
    part = file.with_suffix(f".{secrets.token_hex(8)}")
    part.write_text(made.model_dump_json(), encoding="utf-8")
    part.replace(file)
    return made
