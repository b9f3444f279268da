"""What every record is: frozen, strict about its fields, identical after a JSON round trip."""

import hashlib

from pydantic import BaseModel, ConfigDict, ValidationError

SCHEMA_VERSION = 7
"""Of the records and of every JSON document; `store.migrations` says what each version brought."""


class Record(BaseModel):
    """An immutable noun of the pipeline."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, ser_json_inf_nan="strings"
    )


def digest(*parts: str) -> str:
    """The sha256 of the parts, in hex; parts are separated, so no two lists collide."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def misfit(error: ValidationError) -> str:
    """Where and what the first thing is that does not fit a record, in one line without its value."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"])) or "the whole"
    return f"{where}: {first['msg']}"
