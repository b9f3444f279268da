"""Translation of the SDK's exceptions into one-line faults without secrets.

Contract: every exception that the SDK or its transport raises for a request becomes a RequestFailed that
says whether a retry can help. A fault never quotes a header, a request or a URL that this module was not
given.
"""

import json
import re
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite

import httpx2
import openai

from agent.providers.endpoint import EndpointSettings
from agent.providers.retry import RequestFailed

FAULTS = (
    openai.OpenAIError,
    httpx2.HTTPError,
    ssl.SSLError,
    json.JSONDecodeError,
    UnicodeDecodeError,
    RecursionError,
)
"""Exceptions that a request and its answer can raise for reasons outside this program."""

LONGEST_RETRY_AFTER_S = 120.0
"""Longest wait in seconds that is honoured when a server asks for it, as in openai/_constants.py."""

_TRANSIENT = {408, 409, 429}
_MEND = {
    400: "check the model and the options of the request",
    401: "check the key in OPENAI_API_KEY",
    402: "the account has no credit left: see the billing page of the endpoint",
    403: "the key in OPENAI_API_KEY may not use this model or this endpoint",
    404: "check --model (`agent doctor` lists those served) and --base-url (it mostly ends in /v1)",
    429: "the endpoint limits how often it may be asked: try later",
}
_NO_QUOTA = "the quota of this account is used up: see the billing page of the endpoint"
_SERVER = "the server has a problem of its own: try later"
_UNREACHABLE = "is the server running, and is --base-url right?"
_NOT_AN_API = "is --base-url an OpenAI-compatible API? (it mostly ends in /v1)"


def failure(error: Exception, settings: EndpointSettings) -> RequestFailed:
    """Return `error`, one of FAULTS, as a RequestFailed."""
    if isinstance(error, openai.APIStatusError):
        return _refused(error, settings)
    if isinstance(error, openai.APITimeoutError | httpx2.TimeoutException):
        if any(isinstance(cause, httpx2.ConnectTimeout) for cause in _causes(error)):
            return RequestFailed("no connection in time", mend=_UNREACHABLE, transient=True)
        return RequestFailed("the endpoint fell silent", mend=_SERVER, transient=True)
    if isinstance(error, openai.APIConnectionError | httpx2.HTTPError | ssl.SSLError):
        return _disconnected(error, settings)
    if isinstance(error, openai.APIError):
        return reported(error.body, settings)
    if isinstance(error, openai.OpenAIError):
        what = settings.scrub(f"the request could not be made: {error}")
        return RequestFailed(what, mend="check the endpoint's settings", transient=False)
    return garbage("a body that is not valid JSON")


def fell_silent(error: Exception) -> bool:
    """Return True if the request timed out after the connection was made."""
    timed_out = isinstance(error, openai.APITimeoutError | httpx2.TimeoutException)
    return timed_out and not any(isinstance(cause, httpx2.ConnectTimeout) for cause in _causes(error))


def garbage(what: str) -> RequestFailed:
    """Return the fault for a reply that is not an answer of this API.

    The fault is transient, since failing proxies send such replies.
    """
    return RequestFailed(f"the endpoint sent {what}", mend=_NOT_AN_API, transient=True)


def incomplete(what: str) -> RequestFailed:
    """Return the fault for an answer that ended early. The whole answer is requested again."""
    return RequestFailed(what, mend=_SERVER, transient=True)


def reported(body: object, settings: EndpointSettings) -> RequestFailed:
    """Return the fault for an error object in a successful HTTP reply. Its code may be an HTTP status."""
    words, _, codes = _read(body)
    status = next((int(code) for code in codes if re.fullmatch(r"[45]\d\d", code)), None)
    hopeless = "insufficient_quota" in codes or "invalid_request_error" in codes
    transient = not hopeless and (status is None or status in _TRANSIENT or status >= 500)
    mend = _NO_QUOTA if "insufficient_quota" in codes else _MEND.get(status or 500, _SERVER)
    said = settings.scrub(words) or "no reason given"
    return RequestFailed(f"the endpoint reported an error: {said}", mend=mend, transient=transient)


def _refused(error: openai.APIStatusError, settings: EndpointSettings) -> RequestFailed:
    status, headers = error.status_code, error.response.headers
    words, parameter, codes = _read(error.body)
    no_quota = "insufficient_quota" in codes
    transient = (status in _TRANSIENT or status >= 500) and not no_quota
    transient = transient and headers.get("x-should-retry", "").lower() != "false"
    said = settings.scrub(words)
    failed = RequestFailed(
        f"{status}: {said}" if said else f"{status} without a reason",
        mend=_NO_QUOTA if no_quota else _MEND.get(status, _SERVER if status >= 500 else _MEND[400]),
        transient=transient,
        wait_s=stated_wait_s(headers),
        status=status,
    )
    failed.parameter = parameter
    failed.detail = settings.scrub(words, limit=4000)
    return failed


def _read(body: object) -> tuple[str, str, frozenset[str]]:
    """Return the message, the refused parameter and the codes of an error body of any shape."""
    if not isinstance(body, dict):
        text = body if isinstance(body, str) else ""
        page = re.search(r"<!doctype|<html", text[:500], re.IGNORECASE)
        return ("an HTML page" if page else text), "", frozenset()
    said = body.get("message") or body.get("detail") or body.get("error") or body
    words = said if isinstance(said, str) else json.dumps(said, default=str)
    parameter = body.get("param")
    codes = frozenset(str(body[key]) for key in ("code", "type") if body.get(key) is not None)
    return words, parameter if isinstance(parameter, str) else "", codes


def _disconnected(error: Exception, settings: EndpointSettings) -> RequestFailed:
    causes = list(_causes(error))
    innermost = settings.scrub(str(causes[-1])) or type(causes[-1]).__name__
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        mend = "point SSL_CERT_FILE to the certificate that signed the endpoint's"
        return RequestFailed(f"the certificate is not trusted: {innermost}", mend=mend, transient=False)
    if any(isinstance(cause, httpx2.ConnectError) for cause in causes):
        return RequestFailed(f"no connection: {innermost}", mend=_UNREACHABLE, transient=True)
    if any(isinstance(cause, httpx2.DecodingError) for cause in causes):
        return garbage("a body that cannot be decompressed")
    return RequestFailed(f"the connection broke: {innermost}", mend=_UNREACHABLE, transient=True)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def stated_wait_s(headers: Mapping[str, str]) -> float | None:
    """Return the wait in seconds that the headers ask for.

    Returns None if there is no valid wait up to LONGEST_RETRY_AFTER_S. `retry-after-ms` is OpenAI's own
    header. Retry-After holds seconds or an HTTP date (RFC 9110, section 10.2.3).
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if not value:
            continue
        try:
            wait_s = float(value) * unit_s
        except ValueError:
            wait_s = _seconds_until(value)
        if isfinite(wait_s) and 0 <= wait_s <= LONGEST_RETRY_AFTER_S:
            return wait_s
    return None


def _seconds_until(http_date: str) -> float:
    try:
        moment = parsedate_to_datetime(http_date)
    except ValueError:
        return float("nan")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
