"""The judge service over HTTP, as `agent serve` runs it: prompts and scores.

Contract: asking again is never judging again, so a score whose connection is lost is asked for again.
"""

import asyncio
import os
import time
from typing import Any

import httpx2

POLL_S = 20.0
"""So long one request waits for a verdict."""
REQUEST_S = 60.0
PAUSE_S = 0.5
AWAY = (429, 502, 503, 504)


class ServiceError(Exception):
    """The service refuses, or does not answer; in a line."""


class Service:
    """One service; several rollouts may ask it at a time."""

    def __init__(self, url: str, token_var: str, patience_s: float) -> None:
        """`token_var`: the variable that holds the token. `patience_s`: so long the service may be away."""
        self._url, self._patience_s = url.rstrip("/"), patience_s
        token = os.environ.get(token_var, "")
        self._client: dict[str, Any] = {
            "timeout": REQUEST_S,
            "trust_env": False,
            "headers": {"authorization": f"Bearer {token}"} if token else {},
        }

    def problems(self) -> list[str]:
        """The references that the service comes with."""
        names: list[str] = self._asked("GET", "/v1/problems", None)["problems"]
        return names

    def prompt(self, problem: object, checks: dict[str, Any]) -> list[dict[str, str]]:
        """The messages that ask for a kernel."""
        body = {"problem": problem, "checks": checks}
        messages: list[dict[str, str]] = self._asked("POST", "/v1/prompts", body)["messages"]
        return messages

    async def score(self, problem: object, completion: str, checks: dict[str, Any]) -> dict[str, Any]:
        """What the completion earns."""
        body = {"problem": problem, "completion": completion, "checks": checks}
        found = await self._awaited("POST", "/v1/scores", body)
        while found["score"] is None:
            found = await self._awaited("GET", f"/v1/scores/{found['id']}?wait={POLL_S:g}", None)
        score: dict[str, Any] = found["score"]
        return score

    def _asked(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        """For a beginning: a service that is not there is told at once."""
        try:
            with httpx2.Client(**self._client) as client:
                return _read(client.request(method, self._url + path, json=body))
        except httpx2.TransportError as error:
            raise ServiceError(f"the service at {self._url} does not answer: {_said(error)}") from error

    async def _awaited(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        """Asked again while the service is away or has no room."""
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
