"""A provider under test: settings with short waits, one prompt, everything that it announced."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from endpoint import Endpoint
from pydantic import SecretStr

from agent.errors import EndpointError
from agent.providers.endpoint import EndpointSettings, StreamProgress
from agent.providers.openai_compat import OpenAICompat
from agent.records import Completion, Message, Prompt, RetryScheduled

KEY = "sk-test-0123456789abcdef"
PROMPT = Prompt(
    template="generate",
    messages=(
        Message(role="system", content="You write CUDA."),
        Message(role="user", content="A kernel, please."),
    ),
)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy between client and loopback, no settings of whoever runs the tests."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("API_KEY", "BASE_URL", "ORG_ID", "PROJECT_ID", "CUSTOM_HEADERS", "ADMIN_KEY", "LOG"):
        monkeypatch.delenv(f"OPENAI_{name}", raising=False)


def settings(base_url: str, **changes: Any) -> EndpointSettings:
    given = {"model": "some-model", "longest_wait_s": 0.02, "timeout_s": 20, "idle_s": 20} | changes
    return EndpointSettings(base_url=base_url, api_key=SecretStr(KEY), **given)


@dataclass
class Asker:
    """One provider with what it announced."""

    endpoint: Endpoint
    changes: dict[str, Any] = field(default_factory=dict)
    retries: list[RetryScheduled] = field(default_factory=list)
    progress: list[StreamProgress] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.provider = OpenAICompat(
            settings(self.endpoint.base_url, **self.changes),
            on_retry=self.retries.append,
            on_progress=self.progress.append,
        )

    def ask(self) -> Completion:
        return self.provider.complete(PROMPT)

    def fail(self) -> str:
        """The message of the final failure; one line that names the endpoint."""
        with pytest.raises(EndpointError) as caught:
            self.ask()
        message = str(caught.value)
        assert "\n" not in message
        assert self.endpoint.base_url in message
        return message


def asker(endpoint: Endpoint, **changes: Any) -> Asker:
    return Asker(endpoint, changes)
