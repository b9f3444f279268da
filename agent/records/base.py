"""Base class of all records. Records are frozen, reject unknown fields and survive a JSON round trip."""

import hashlib

from pydantic import BaseModel, ConfigDict, ValidationError

SCHEMA_VERSION = 7
"""Version of the records and of every JSON document. `store.migrations` lists what each version changed."""


class Record(BaseModel):
    """An immutable record of the pipeline."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, ser_json_inf_nan="strings"
    )


def digest(*parts: str) -> str:
    """Return the sha256 of the parts, in hex. Parts are separated, so no two lists collide."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def misfit(error: ValidationError) -> str:
    """Return the place and cause of the first validation error in one line, without the value."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"])) or "the whole"
    return f"{where}: {first['msg']}"
