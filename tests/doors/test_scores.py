"""The service tells trainers what to ask a model, and what its answers earn."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doors.pretended import ABOUT, TOKEN, desk
from starlette.testclient import TestClient

from agent.doors.service import app as service
from agent.doors.service.metrics import Metrics


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    headers = {"authorization": f"Bearer {TOKEN}"}
    with TestClient(service.build(desk(tmp_path), ABOUT, Metrics()), headers=headers) as found:
        yield found


def test_what_a_completion_earns(client: TestClient, tmp_path: Path) -> None:
    text = "```python\nclass ModelNew:\n    word = '{}'\n```"

    def scored(completion: str) -> dict[str, Any]:
        first = client.post("/v1/scores", json={"problem": "a problem", "completion": completion})
        assert first.status_code == 202, first.text
        job = first.json()
        found: dict[str, Any] = client.get(f"/v1/scores/{job['id']}?wait=30").json() if job["id"] else job
        return found

    found = [
        scored(text.format("one")),
        scored(f"Another way to say it:\n{text.format('one')}"),
        scored("No."),
    ]
    assert [one["state"] for one in found] == ["done"] * 3
    assert found[0]["score"]["total"] == pytest.approx(0.1)
    assert found[1] == found[0]
    assert (found[2]["score"]["total"], found[2]["score"]["parsed"]) == (0.0, False)
    assert len((tmp_path / "judged").read_text().split()) == 1


def test_a_fault_of_ours_is_no_score(client: TestClient) -> None:
    broken = "class ModelNew:\n    pass  # broken"
    asked = {"problem": "a problem", "completion": f"```python\n{broken}\n```"}
    job = client.post("/v1/scores", json=asked).json()["id"]
    answer = client.get(f"/v1/scores/{job}?wait=30").json()
    assert (answer["state"], answer["score"]["total"]) == ("failed", None)
    assert "the disk is full" in answer["score"]["why"]


def test_what_a_trainer_asks_for_is_refused_in_a_line(client: TestClient) -> None:
    told = client.post("/v1/prompts", json={"problem": "a problem"}).json()
    assert told["messages"][0]["content"] == "Write a kernel for a problem."
    assert "level1/softmax" in client.get("/v1/problems").json()["problems"]
    for path, body, status in (
        ("/v1/prompts", {"problem": "another"}, 422),
        ("/v1/scores", {"problem": "another", "completion": "```python\nclass ModelNew: pass\n```"}, 422),
        ("/v1/scores", {"problem": "a problem", "completion": "x" * (2**20 + 1)}, 422),
        ("/v1/scores", {"problem": "a problem"}, 422),
    ):
        answer = client.post(path, json=body)
        assert (answer.status_code, list(answer.json())) == (status, ["detail"]), answer.text
        assert "\n" not in answer.json()["detail"]
        assert client.post(path, json=body, headers={"authorization": "Bearer no"}).status_code == 401
    assert client.get("/v1/scores/none").status_code == 404
    prepared = client.post("/v1/evaluations", json={"problem": "a problem"}).json()["id"]
    assert client.get(f"/v1/scores/{prepared}?wait=30").json() == {"detail": "that job judges no candidate"}


def test_prompts_count_as_jobs_do(tmp_path: Path) -> None:
    limited = service.build(desk(tmp_path, a_minute=2), ABOUT, Metrics())
    with TestClient(limited, headers={"authorization": f"Bearer {TOKEN}"}) as client:
        codes = [client.post("/v1/prompts", json={"problem": "a problem"}).status_code for _ in range(3)]
    assert codes == [200, 200, 429]
