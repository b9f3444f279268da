"""HTTP client of the judge service `agent serve`: prompts and scores.

Contract: repeating a request never judges twice, so a request is repeated after a lost connection.
"""

import asyncio
import os
import time
from typing import Any

import httpx2

POLL_S = 20.0
"""Seconds for which the service holds one request while it waits for a verdict."""
REQUEST_S = 60.0
"""Timeout of one request in seconds."""
PAUSE_S = 0.5
"""Seconds between two attempts while the service is unavailable."""
AWAY = (429, 502, 503, 504)
"""HTTP status codes of a service that is unavailable or has no room in its queue."""


class ServiceError(Exception):
    """One-line error for a service that refuses a request or does not answer."""


class Service:
    """Client of one service. Several rollouts may use it concurrently."""

    def __init__(self, url: str, token_var: str, patience_s: float) -> None:
        """Create the client.

        `token_var` names the environment variable that holds the token. `patience_s` is the number of seconds
        for which the service may be unavailable.
        """
        self._url, self._patience_s = url.rstrip("/"), patience_s
        token = os.environ.get(token_var, "")
        self._client: dict[str, Any] = {
            "timeout": REQUEST_S,
            "trust_env": False,
            "headers": {"authorization": f"Bearer {token}"} if token else {},
        }

    def problems(self) -> list[str]:
        """Return the names of the references shipped with the service."""
        names: list[str] = self._asked("GET", "/v1/problems", None)["problems"]
        return names

    def prompt(self, problem: object, checks: dict[str, Any]) -> list[dict[str, str]]:
        """Return the messages that ask for a kernel for the problem."""
        body = {"problem": problem, "checks": checks}
        messages: list[dict[str, str]] = self._asked("POST", "/v1/prompts", body)["messages"]
        return messages

    async def score(self, problem: object, completion: str, checks: dict[str, Any]) -> dict[str, Any]:
        """Return the score of a completion, waiting until it is judged."""
        body = {"problem": problem, "completion": completion, "checks": checks}
        found = await self._awaited("POST", "/v1/scores", body)
        while found["score"] is None:
            found = await self._awaited("GET", f"/v1/scores/{found['id']}?wait={POLL_S:g}", None)
        score: dict[str, Any] = found["score"]
        return score

    def _asked(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        """Send a request once. Used at the start, where a missing service should fail at once."""
        try:
            with httpx2.Client(**self._client) as client:
                return _read(client.request(method, self._url + path, json=body))
        except httpx2.TransportError as error:
            raise ServiceError(f"the service at {self._url} does not answer: {_said(error)}") from error

    async def _awaited(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        """Send a request, and repeat it while the service is unavailable or has no room."""
        deadline = time.monotonic() + self._patience_s
        async with httpx2.AsyncClient(**self._client) as client:
            while True:
                try:
                    answer = await client.request(method, self._url + path, json=body)
                    if answer.status_code not in AWAY:
                        return _read(answer)
                    why = f"status {answer.status_code}"
                except httpx2.TransportError as error:
                    why = _said(error)
                if time.monotonic() > deadline:
                    raise ServiceError(f"the service at {self._url} does not answer: {why}")
                await asyncio.sleep(PAUSE_S)


def _said(error: httpx2.TransportError) -> str:
    return str(error) or type(error).__name__


def _read(answer: httpx2.Response) -> Any:
    try:
        said = answer.json()
    except ValueError:
        raise ServiceError(f"{answer.url} answered {answer.status_code} and no JSON") from None
    if answer.is_success:
        return said
    reason = said.get("detail", said) if isinstance(said, dict) else said
    raise ServiceError(f"the service answered {answer.status_code}: {str(reason)[:500]}")
