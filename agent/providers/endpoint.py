"""Settings of an endpoint: its address, its key and the options of a request.

Contract: no output of this module (repr, `where`, scrubbed text) shows the key or credentials in the URL.
The module reads no environment variables, does not import openai and makes no request. The caller builds the
settings.
"""

import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, SecretStr

from agent.errors import UsageError
from agent.records.base import Record

OPENAI_URL = "https://api.openai.com/v1"
_MASK = "[key]"
# The pattern matches any text like a credential, since endpoints quote parts of what they were sent.
_CREDENTIAL = re.compile(r"\bsk-[\w*.\-]{4,}|(?<=[Bb]earer )\S+")
# A dummy key for a local server ("x", "EMPTY") is no secret, and masking it would garble ordinary words.
_SHORTEST_SECRET = 8


class EndpointSettings(Record):
    """Address, key and request options of one model at one OpenAI-compatible endpoint."""

    base_url: str | None = Field(default=None, repr=False)
    """Base URL up to and including `/v1`. None is OpenAI itself."""
    api_key: SecretStr
    """API key, never empty. A server that needs no key gets a dummy."""
    model: str = ""
    """Model name. It is empty only for listing models."""
    timeout_s: float = Field(default=600, gt=0)
    """Time limit of one request in seconds, checked at each chunk. It can be exceeded by one `idle_s`."""
    idle_s: float = Field(default=300, gt=0)
    """Longest silence before and within a stream in seconds.

    A model that reasons out of sight, or a server that reads a long prompt, may send nothing for minutes.
    Retrying too early would pay for the answer twice.
    """
    connect_s: float = Field(default=60, gt=0)
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_output_tokens: int | None = Field(default=None, ge=1)
    reasoning_effort: str | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    api: Literal["chat", "responses"] = "chat"
    stream: bool = True
    extra_body: dict[str, JsonValue] = {}
    """Additional parameters of each request, sent unchanged."""
    retry_for_s: float = Field(default=300, ge=0)
    """Time after the first failure of a request during which it is retried, in seconds."""
    longest_wait_s: float = Field(default=60, ge=0)
    """Maximum exponential wait in seconds. A wait that the server asks for may be longer."""

    @property
    def url(self) -> str:
        """Return the base URL for requests. Raises UsageError if it is invalid."""
        given = (self.base_url or OPENAI_URL).strip()
        try:
            parts = urlsplit(given)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname)
            _ = parts.port
        except ValueError:
            usable = False
        if not usable:
            raise UsageError(
                f"the base URL {self.where} is invalid; it must look like http://localhost:8000/v1"
            )
        return given

    @property
    def where(self) -> str:
        """Return the base URL for display, without user, password, query and fragment."""
        shown = (self.base_url or OPENAI_URL).strip()
        shown = re.split(r"[?#]", one_line(shown, limit=200), maxsplit=1)[0]
        return re.sub(r"^(\w+://)?[^/]*@", r"\1", shown)

    @property
    def key(self) -> str:
        """Return the key to send. Raises UsageError if it is empty or invalid in an HTTP header."""
        key = self.api_key.get_secret_value().strip()
        if not key:
            raise UsageError("the API key is empty: set OPENAI_API_KEY (any word if the server wants none)")
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise UsageError(
                "the API key contains a space, a line break or another invalid character; "
                "check OPENAI_API_KEY"
            )
        return key

    def check(self) -> None:
        """Raise UsageError if no request can be made with these settings."""
        if not self.model:
            raise UsageError("no model is set; pass --model")
        _ = self.key
        unknown = [
            name for name, value in (("seed", self.seed), ("stop", self.stop)) if value not in (None, ())
        ]
        if self.api == "responses" and unknown:
            raise UsageError(
                f"the Responses API has no `{unknown[0]}`; leave it out, or use Chat Completions (--api chat)"
            )

    def mask(self, text: str) -> str:
        """Return the text with the key masked. A key of fewer than 8 characters is kept."""
        key = self.api_key.get_secret_value().strip()
        return text.replace(key, _MASK) if len(key) >= _SHORTEST_SECRET else text

    def scrub(self, text: str, *, limit: int = 300) -> str:
        """Return a server's text as one printable line with everything like a credential masked."""
        # The key is masked before truncation, since part of a key is still a secret.
        return one_line(_CREDENTIAL.sub(_MASK, self.mask(text)), limit=limit)


class StreamProgress(Record):
    """Progress of one streamed answer: characters received and seconds."""

    text_characters: int
    reasoning_characters: int
    seconds: float


def one_line(text: str, *, limit: int) -> str:
    """Return the text as one line of at most `limit` characters.

    Control characters and runs of white space become single spaces.
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 20 * limit]).split())
    return line if len(line) <= limit else line[: limit - 3].rstrip() + "..."
