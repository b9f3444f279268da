"""`agent run --search beam` at an endpoint that hangs and drops: killed, resumed, out of budget."""

import json
import signal
import subprocess
import time
from pathlib import Path

import endpoint
import pytest
from e2e.commands import COMMAND, agent, environment, shown
from interrupting import PATIENCE_S, interruptible

pytestmark = pytest.mark.timeout(900)
PRICES = '{"*": {"input": 1, "output": 6}}'
BEAM = ("--search", "beam", "--samples", "4", "--width", "2", "--parallel", "4", "--executor", "emulator")


def answer(number: int) -> str:
    """Refused by the judge at a look: it has no kernel."""
    return (
        "```python\nimport torch\n\n\nclass ModelNew(torch.nn.Module):\n"
        f"    def forward(self, x):\n        return x * {number}\n```"
    )


def begun(server: endpoint.Endpoint, *, answered: int, asked: int, cwd: Path) -> subprocess.Popen[bytes]:
    """A beam with so many answers on disk and so many questions at the endpoint."""
    process = subprocess.Popen(
        [*COMMAND, "run", "level1/softmax", *BEAM, "--max-cost", "1", "--model", "m", "--base-url",
         server.base_url],
        cwd=cwd, env=environment(AGENT_PRICES=PRICES, AGENT_MAX_OUTPUT_TOKENS="2000"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=interruptible,
    )  # fmt: skip
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        events = [path.read_text() for path in cwd.glob("runs/*/events.jsonl")]
        received = events[0].count('"kind":"completed"') if events else 0
        if received == answered and len(server.completions) >= asked:
            return process
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.05)
    process.kill()
    raise AssertionError("the beam never came so far")


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_beam_asks_for_nothing_that_was_received(stop: signal.Signals, tmp_path: Path) -> None:
    script: list[endpoint.Behaviour] = [
        endpoint.stream(answer(1)),
        endpoint.stream(answer(2)),
        endpoint.hang(),
        endpoint.hang(),
    ]
    with endpoint.Endpoint(script) as server:
        process = begun(server, answered=2, asked=4, cwd=tmp_path)
        process.send_signal(stop)
        assert process.wait(timeout=PATIENCE_S) == (-signal.SIGKILL if stop == signal.SIGKILL else 130)
    (folder,) = (tmp_path / "runs").iterdir()
    before = shown(folder.name, tmp_path)
    received = {entry["prompt"]["id"] for entry in before["rounds"] if entry["completion"]}
    assert len(received) == 2
    with endpoint.Endpoint([endpoint.stream(answer(number)) for number in range(3, 20)]) as server:
        done = agent(
            "run", "--resume", folder.name, "--base-url", server.base_url, cwd=tmp_path, AGENT_PRICES=PRICES,
            AGENT_MAX_OUTPUT_TOKENS="2000",
        )  # fmt: skip
        asked = [request.body["messages"][-1]["content"] for request in server.completions]
    assert done.returncode == 1, done.stderr
    document = shown(folder.name, tmp_path)
    assert document["outcome"] == "no_kernel"
    rounds = document["rounds"]
    assert len(rounds) == 6
    assert sorted(asked) == sorted(
        entry["prompt"]["messages"][-1]["content"]
        for entry in rounds
        if entry["prompt"]["id"] not in received
    )
    statuses = [attempt["evaluation"]["status"] for entry in rounds for attempt in entry["attempts"]]
    assert statuses == ["rejected"] * 6


def test_no_question_is_asked_whose_largest_cost_is_not_left(tmp_path: Path) -> None:
    """A question takes $0.2 at most: four fit, and one whose answer broke off is not asked again."""
    script = [
        endpoint.stream(answer(1), drop_after=2),
        *(endpoint.stream(answer(number), usage=None) for number in range(2, 9)),
    ]
    with endpoint.Endpoint(script) as server:
        done = agent(
            "run", "level1/softmax", *BEAM, "--max-cost", "0.85", "--model", "m", "--base-url",
            server.base_url, "--json", cwd=tmp_path, AGENT_PRICES=PRICES,
        )  # fmt: skip
        asked = server.completions
    assert done.returncode == 124, done.stderr
    result = json.loads(done.stdout)
    assert result["outcome"] == "budget"
    assert "budget of $0.85" in result["reason"]
    assert {request.body["max_tokens"] for request in asked} == {32768}
    largest = [
        (sum(len(message["content"].encode()) for message in request.body["messages"]) + 6 * 32768) / 1e6
        for request in asked
    ]
    assert len(asked) == 4
    assert sum(largest) <= 0.85 < sum(largest) + min(largest)
    listed = agent("runs", "--json", cwd=tmp_path)
    assert json.loads(listed.stdout)["runs"][0]["outcome"] == "budget"


def test_a_cost_without_a_price_is_exit_2(tmp_path: Path) -> None:
    with endpoint.Endpoint([]) as server:
        done = agent(
            "run", "level1/softmax", *BEAM, "--max-cost", "1", "--model", "m", "--base-url", server.base_url,
            cwd=tmp_path,
        )  # fmt: skip
        assert not server.completions
    assert done.returncode == 2
    assert "prices" in done.stderr
