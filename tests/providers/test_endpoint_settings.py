"""What settings show, what they refuse, and what a certificate fault says."""

import ssl
import subprocess
import sys

import httpx2
import openai
import pytest
from providers.asking import KEY, settings
from pydantic import SecretStr, ValidationError

from agent.errors import UsageError
from agent.providers import faults
from agent.providers.endpoint import EndpointSettings


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, "https://api.openai.com/v1"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("https://user:secret@host/v1?token=secret#secret", "https://host/v1"),
        ("user:secret@host", "host"),
        ("http://host/\x1b[31mv1", "http://host/ [31mv1"),
    ],
)
def test_url_is_shown_without_credentials(given: str | None, shown: str) -> None:
    chosen = EndpointSettings(base_url=given, api_key=SecretStr(KEY), model="m")
    assert chosen.where == shown
    assert "secret" not in repr(chosen)
    assert KEY not in repr(chosen)


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://host/v1", "http://", "http://host:port/v1", "http://[::"]
)
def test_unusable_url_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match="must look like http"):
        _ = settings(url).url


@pytest.mark.parametrize("key", ["", "  ", f"{KEY}\nX-Header: 1", f"{KEY} {KEY}", "schlüssel"])
def test_unusable_key_is_a_usage_error_that_does_not_quote_it(key: str) -> None:
    chosen = EndpointSettings(api_key=SecretStr(key), model="m")
    with pytest.raises(UsageError, match="OPENAI_API_KEY") as caught:
        _ = chosen.key
    assert KEY not in str(caught.value)


def test_key_may_come_with_a_line_end() -> None:
    assert EndpointSettings(api_key=SecretStr(KEY + "\n"), model="m").key == KEY


def test_dummy_key_does_not_garble_words() -> None:
    chosen = EndpointSettings(api_key=SecretStr("x"), model="m")
    assert chosen.scrub("unexpected\n\tx\x1b[2J") == "unexpected x [2J"


def test_impossible_values_are_refused() -> None:
    for wrong in ({"temperature": 3.0}, {"max_output_tokens": 0}, {"timeout_s": 0}, {"retry_for_s": -1}):
        with pytest.raises(ValidationError):
            settings("http://localhost/v1", **wrong)


def test_untrusted_certificate_is_not_asked_again() -> None:
    request = httpx2.Request("POST", "https://localhost/v1")
    broken = httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")
    broken.__cause__ = ssl.SSLCertVerificationError(1, "self-signed certificate")
    error = openai.APIConnectionError(request=request)
    error.__cause__ = broken
    failed = faults.failure(error, settings("https://localhost/v1"))
    assert not failed.transient
    assert "SSL_CERT_FILE" in failed.mend


def test_settings_and_stored_answers_import_no_client() -> None:
    modules = "agent.providers.endpoint, agent.providers.replay, agent.providers.scripted"
    code = f"import sys, {modules}; sys.exit('openai' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
