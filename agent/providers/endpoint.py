"""What an endpoint is known by: where it is, the key, the options of a request.

Contract: nothing that leaves this module (repr, `where`, scrubbed text) shows the key or credentials
that are part of the URL. Does not read the environment, does not import openai and asks nobody: the
command line builds these settings.
"""

import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, SecretStr

from agent.errors import UsageError
from agent.records.base import Record

OPENAI_URL = "https://api.openai.com/v1"
_MASK = "[key]"
# Words that look like a credential, ours or not: endpoints quote (parts of) what they were sent.
_CREDENTIAL = re.compile(r"\bsk-[\w*.\-]{4,}|(?<=[Bb]earer )\S+")
# A dummy for a local server ("x", "EMPTY") is no secret, and masking it would garble ordinary words.
_SHORTEST_SECRET = 8


class EndpointSettings(Record):
    """One model at one OpenAI-compatible endpoint."""

    base_url: str | None = Field(default=None, repr=False)
    """Up to and including `/v1`; None is OpenAI itself."""
    api_key: SecretStr
    """Never empty: a server that wants no key gets a dummy."""
    model: str = ""
    """Empty only where models are listed."""
    timeout_s: float = Field(default=600, gt=0)
    """One whole request; checked at each piece that arrives, so it can be overrun by one `idle_s`."""
    idle_s: float = Field(default=300, gt=0)
    """Longest silence before and within a stream. Generous: a model that reasons out of sight or a server
    that reads a long prompt says nothing for minutes, and asking again would pay for it twice."""
    connect_s: float = Field(default=60, gt=0)
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_output_tokens: int | None = Field(default=None, ge=1)
    reasoning_effort: str | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    api: Literal["chat", "responses"] = "chat"
    stream: bool = True
    extra_body: dict[str, JsonValue] = {}
    """Further parameters of each request, sent as they are."""
    retry_for_s: float = Field(default=300, ge=0)
    """How long after the first failure of a request it is still asked again."""
    longest_wait_s: float = Field(default=60, ge=0)
    """Cap of the exponential waits; a wait that the server names may be longer."""

    @property
    def url(self) -> str:
        """The base URL to send to. Raises UsageError if it is none."""
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
        """The base URL to show: without user, password, query and fragment."""
        shown = (self.base_url or OPENAI_URL).strip()
        shown = re.split(r"[?#]", one_line(shown, limit=200), maxsplit=1)[0]
        return re.sub(r"^(\w+://)?[^/]*@", r"\1", shown)

    @property
    def key(self) -> str:
        """The key to send. Raises UsageError for one that no HTTP header can hold."""
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
        """Raises UsageError for settings that no request can be made with."""
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
        """The text without the key."""
        key = self.api_key.get_secret_value().strip()
        return text.replace(key, _MASK) if len(key) >= _SHORTEST_SECRET else text

    def scrub(self, text: str, *, limit: int = 300) -> str:
        """A server's words as one printable line without anything that looks like a credential."""
        # Masked before it is cut: half a key is still half a secret.
        return one_line(_CREDENTIAL.sub(_MASK, self.mask(text)), limit=limit)


class StreamProgress(Record):
    """How far one streamed answer is."""

    text_characters: int
    reasoning_characters: int
    seconds: float


def one_line(text: str, *, limit: int) -> str:
    """The text with control characters and runs of space as single spaces, at most `limit` characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 20 * limit]).split())
    return line if len(line) <= limit else line[: limit - 3].rstrip() + "..."
