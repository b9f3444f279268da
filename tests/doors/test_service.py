"""The judge service: nothing is lost, repeated or mixed up, and what is refused is refused in a line."""

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest
from doors.pretended import ABOUT, TOKEN, Pretended, desk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interrupting import interruptible
from starlette.testclient import TestClient

from agent.api.listening import Listener
from agent.api.service import Answer, Asked, Service
from agent.doors.service import app as service
from agent.doors.service.desk import LARGEST_CANDIDATE
from agent.doors.service.ledger import Full, Job, Ledger
from agent.doors.service.metrics import Metrics
from agent.doors.service.work import Workers
from agent.errors import EnvironmentFault, UsageError
from agent.records import Candidate

AUTHORISED = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(service.build(desk(tmp_path), ABOUT, Metrics()), headers=AUTHORISED) as found:
        yield found


def question(candidate: str) -> dict[str, object]:
    return {"problem": "a problem", "candidate": candidate}


class Process:
    """A service of its own, which is killed and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, 0
        self.start()

    def start(self) -> None:
        tests = Path(__file__).resolve().parents[1]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "doors.pretended", str(self._folder), str(self._port)],
            stdout=subprocess.PIPE, text=True, preexec_fn=interruptible,
            env={**os.environ, "PYTHONPATH": f"{tests}{os.pathsep}{tests.parent}"},
        )  # fmt: skip
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        self._port = int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.mark.timeout(600)
def test_two_hundred_at_once_with_a_kill_in_the_middle(tmp_path: Path) -> None:
    process, log = Process(tmp_path), tmp_path / "judged"
    client = Service(process.url, TOKEN, patience_s=300)
    texts = [f"class ModelNew: number = {number % 180}" for number in range(200)]
    verdicts: dict[int, str] = {}

    def ask(number: int) -> None:
        candidate = Candidate(problem="a problem", source=texts[number], origin="file")
        found = client.evaluate("a problem", candidate)
        verdicts[number] = found.findings[0].message

    with ThreadPoolExecutor(200) as pool:
        asked = [pool.submit(ask, number) for number in range(200)]
        while not log.exists() or len(log.read_text().splitlines()) < 60:
            threading.Event().wait(0.01)
        process.kill()
        finished = set(log.read_text().split())
        process.start()
        for one in asked:
            one.result()
    process.kill()
    assert verdicts == dict(enumerate(texts))
    judged = Counter(log.read_text().split())
    assert len(judged) == 180
    # Of what ended before the kill, four at most had not been written down as finished.
    assert sum(count - 1 for count in judged.values()) <= 4
    assert {name for name, count in judged.items() if count > 1} <= finished


def test_a_job_is_named_by_its_content_and_judged_once(client: TestClient, tmp_path: Path) -> None:
    first = client.post("/v1/evaluations", json=question("x = 1")).json()
    again = client.post("/v1/evaluations", json=question("x = 1")).json()
    other = client.post("/v1/evaluations", json={**question("x = 1"), "checks": {"quick": True}}).json()
    assert first["id"] == again["id"] != other["id"]
    answer = client.get(f"/v1/evaluations/{first['id']}?wait=30").json()
    assert (answer["state"], answer["evaluation"]["findings"][0]["message"]) == ("done", "x = 1")
    client.get(f"/v1/evaluations/{other['id']}?wait=30")
    assert sorted((tmp_path / "judged").read_text().split()) == sorted({first["id"], other["id"]})


def test_a_batch_comes_back_in_its_order(client: TestClient) -> None:
    texts = [f"number = {number}" for number in range(20)]
    jobs = client.post("/v1/batches", json={"items": [question(text) for text in texts]}).json()["jobs"]
    found = [client.get(f"/v1/evaluations/{job['id']}?wait=30").json() for job in jobs]
    assert [one["evaluation"]["findings"][0]["message"] for one in found] == texts


def test_events_end_with_the_verdict(client: TestClient) -> None:
    job = client.post("/v1/evaluations", json=question("x = 2")).json()["id"]
    told = client.get(f"/v1/evaluations/{job}/events").text
    assert told.rstrip().endswith(f"event: done\ndata: {job}")


@pytest.mark.parametrize(("candidate", "said"), [("broken", "the disk is full"), ("a defect", "a bug in")])
def test_a_fault_of_ours_is_told_and_judged_again(client: TestClient, candidate: str, said: str) -> None:
    job = client.post("/v1/evaluations", json=question(candidate)).json()["id"]
    answer = client.get(f"/v1/evaluations/{job}?wait=30").json()
    assert (answer["state"], answer["fault"]["exit_code"]) == ("failed", 3)
    assert said in answer["fault"]["message"]
    assert client.post("/v1/evaluations", json=question(candidate)).json()["state"] == "queued"


def test_what_is_refused(client: TestClient) -> None:
    for authorization in ("", "Bearer no", f"Basic {TOKEN}", "Bearer \xff"):
        headers = {b"authorization": authorization.encode("latin-1")}
        for method, path in (("POST", "/v1/evaluations"), ("GET", "/v1/jobs"), ("GET", "/metrics")):
            assert client.request(method, path, json=question("x"), headers=headers).status_code == 401
    for body, status in (
        (question("x" * (LARGEST_CANDIDATE + 1)), 413),
        (question("x" * service.LARGEST_REQUEST_BYTES), 413),
        ({"problem": "/etc/passwd", "candidate": "x"}, 422),
        ({"problem": "../../references/level1/softmax", "candidate": "x"}, 422),
        ({**question("x"), "sandbox": "none"}, 422),
        ({**question("x"), "checks": {"quick": "maybe"}}, 422),
        ({"problem": {"name": "x", "source": "import os"}, "candidate": "x"}, 422),
        ([], 422),
    ):
        answer = client.post("/v1/evaluations", json=body)
        assert (answer.status_code, list(answer.json())) == (status, ["detail"]), answer.text
        assert "\n" not in answer.json()["detail"]
    assert client.post("/v1/batches", json={"items": [question("x")] * 257}).status_code == 422
    assert client.post("/v1/evaluations", content=iter([b"{}"])).status_code == 411
    assert client.get("/v1/evaluations/../../etc/passwd").status_code == 404
    assert client.get("/v1/evaluations/none").status_code == 404


def test_a_full_queue_and_a_token_that_asks_too_often_are_told_to_come_back(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "full.sqlite", 1)
    ledger.accept(Job("a", Asked(problem="a problem", candidate="a")))
    with pytest.raises(Full):
        ledger.accept(Job("b", Asked(problem="a problem", candidate="b")))
    assert ledger.accept(Job("a", Asked(problem="a problem", candidate="a"))) == "queued"
    limited = service.build(desk(tmp_path, a_minute=3), ABOUT, Metrics())
    with TestClient(limited, headers=AUTHORISED) as client:
        codes = [client.post("/v1/evaluations", json=question(f"{n}")).status_code for n in range(5)]
    assert codes == [202, 202, 202, 429, 429]


def test_the_queue_of_a_process_is_that_of_the_next(tmp_path: Path) -> None:
    first = Ledger(tmp_path / "jobs.sqlite", 10)
    for name in "abc":
        first.accept(Job(name, Asked(problem="a problem", candidate=name)))
    assert first.take(lambda: False) == Job("a", Asked(problem="a problem", candidate="a"))
    first.close()
    second = Ledger(tmp_path / "jobs.sqlite", 10)
    assert [second.take(lambda: False) for _ in "abc"] == [
        Job(name, Asked(problem="a problem", candidate=name)) for name in "abc"
    ]


def test_two_services_do_not_share_a_queue(tmp_path: Path) -> None:
    first = Ledger(tmp_path / "jobs.sqlite", 10)
    first.accept(Job("a", Asked(problem="a problem", candidate="a")))
    with pytest.raises(EnvironmentFault, match="is another service using it"):
        Ledger(tmp_path / "jobs.sqlite", 10)


def test_health_metrics_and_the_page(client: TestClient) -> None:
    client.post("/v1/evaluations", json=question("x = 3"))
    assert client.get("/health", headers={"authorization": ""}).json()["state"] == "ok"
    assert 'kernelwright_jobs{state="' in client.get("/metrics").text
    schema = client.get("/openapi.json").json()
    assert {"/v1/evaluations", "/v1/batches", "/v1/jobs", "/health", "/metrics"} <= set(schema["paths"])
    page = client.get("/")
    assert "/v1/batches" in page.text
    assert "://" not in page.text  # nothing from elsewhere


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


PATHS = tuple(
    f"/v1/{name}"
    for name in ("evaluations", "evaluations/x", "batches", "jobs", "scores", "scores/x", "prompts")
)
BODIES = st.fixed_dictionaries(
    {"problem": JSON, "checks": JSON}, optional={"candidate": JSON, "completion": JSON}
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH"]),
    path=st.sampled_from([*PATHS, "/health", "/"]) | st.text(min_size=1).map(lambda text: f"/v1/{text}"),
    body=st.binary(max_size=200) | JSON.map(lambda value: repr(value).encode("utf-8", "surrogatepass"))
    | BODIES.map(lambda value: json.dumps(value).encode()),
)  # fmt: skip
def test_no_request_breaks_it(client: TestClient, method: str, path: str, body: bytes) -> None:
    answer = client.request(method, quote(path), content=body, headers={"content-type": "application/json"})
    assert answer.status_code < 500, (method, path, body, answer.text)


def test_a_client_without_a_service_is_told_so() -> None:
    with pytest.raises(UsageError, match="no URL of a service"):
        Service("localhost:1")
    with pytest.raises(EnvironmentFault, match="does not answer"):
        Service("http://127.0.0.1:9", "token", patience_s=0).about()


def test_the_pretended_judge_refuses_other_problems(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        Pretended(tmp_path / "log").name(Asked(problem="another", candidate="x"))


def test_a_judge_that_is_ended_with_the_service_has_not_answered(tmp_path: Path) -> None:
    begun, told = threading.Event(), threading.Event()

    class Ended(Pretended):
        def judge(self, name: str, asked: Asked, told_of: Listener) -> Answer:
            begun.set()
            told.wait(30)
            raise EnvironmentFault("the judge was killed")

    ledger = Ledger(tmp_path / "jobs.sqlite", 10)
    workers = Workers(ledger, Ended(tmp_path / "log"), 1, lambda answer, seconds: None)
    ledger.accept(Job("a", Asked(problem="a problem", candidate="a")))
    workers.start()
    begun.wait(30)
    stopping = threading.Thread(target=workers.stop)
    stopping.start()
    while not workers.ending:
        threading.Event().wait(0.01)
    told.set()
    stopping.join()
    assert ledger.state("a") == "queued"
