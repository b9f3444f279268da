"""A cluster's judges without Ray: who gets which job, what is done again, who is set aside."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from doors.clusters import (
    ABOUT,
    HELLO,
    PLAN,
    Heard,
    MadeUp,
    asked,
    fault,
    judged,
    lost,
    names,
    opened,
    right,
    stub,
)
from interrupting import PATIENCE_S

from agent.api.listening import Listener
from agent.doors.cluster.dispatch import FAULTS_IN_A_ROW, TRIES, Dispatch
from agent.doors.cluster.keeper import STARTS, Keeper
from agent.doors.cluster.messages import Hello, Order, Reply
from agent.doors.cluster.places import Machine, executor, places
from agent.doors.cluster.rays import Rays
from agent.errors import EnvironmentFault, Interrupted, UsageError


def ready(dispatch: Dispatch, slots: int) -> Dispatch:
    """Waits until so many candidates can be judged at once."""
    deadline = time.monotonic() + PATIENCE_S
    while sum(one.free for one in dispatch._judges.values()) < slots:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return dispatch


def test_no_more_jobs_are_out_than_there_are_judges() -> None:
    def slow(order: Order) -> Reply:
        time.sleep(0.02)
        return right(order)

    cluster = MadeUp({"one": slow, "other": slow}, processors=8)
    dispatch = ready(opened(cluster), 4)
    texts = [f"candidate {number}" for number in range(30)]
    with ThreadPoolExecutor(30) as pool:
        found = list(pool.map(lambda text: dispatch.judge(text, asked(text), Listener()), texts))
    dispatch.close()
    assert names(found) == texts
    assert sorted(text for _, text in cluster.given) == sorted(texts), "each once"
    assert cluster.most_at_work <= 4


def test_a_job_whose_machine_is_lost_is_judged_by_another() -> None:
    heard = Heard()
    cluster = MadeUp({"gone": lost, "stays": right})
    dispatch = ready(opened(cluster, heard), 2)
    found = [dispatch.judge(text, asked(text), Listener()) for text in "abcdef"]
    assert names(found) == list("abcdef")
    cluster.there.pop(0)
    assert names([dispatch.judge("g", asked("g"), Listener())]) == ["g"]
    dispatch.close()
    assert any("gone is lost" in said for said in heard.said)


def test_a_judge_that_only_fails_is_set_aside_and_its_jobs_are_judged_elsewhere() -> None:
    heard = Heard()
    cluster = MadeUp({"poisoned": lambda order: fault("CUDA error: an illegal address"), "well": right})
    dispatch = ready(opened(cluster, heard), 2)
    found = [dispatch.judge(text, asked(text), Listener()) for text in "abcdefghij"]
    dispatch.close()
    assert names(found) == list("abcdefghij")
    assert sum(name == "poisoned" for name, _ in cluster.given) == FAULTS_IN_A_ROW
    assert cluster.ended == ["poisoned"]
    assert heard.said == ["poisoned is set aside: CUDA error: an illegal address"]


def test_a_gpu_that_computes_nothing_any_more_is_set_aside_at_once() -> None:
    cluster = MadeUp({"poisoned": lambda order: Reply(unfit="no sum on the GPU"), "well": right})
    dispatch = ready(opened(cluster), 2)
    assert names(dispatch.judge(text, asked(text), Listener()) for text in "abcd") == list("abcd")
    dispatch.close()
    assert sum(name == "poisoned" for name, _ in cluster.given) <= 1


def test_what_every_judge_fails_on_ends_as_a_fault_of_ours_and_they_go_on() -> None:
    def picky(order: Order) -> Reply:
        return fault("the disk is full") if order.asked.candidate == "large" else right(order)

    cluster = MadeUp({"one": picky, "other": picky})
    dispatch = ready(opened(cluster), 2)
    with pytest.raises(EnvironmentFault, match="the disk is full"):
        dispatch.judge("large", asked("large"), Listener())
    assert [text for _, text in cluster.given] == ["large"] * TRIES
    assert {name for name, _ in cluster.given} == {"one", "other"}
    assert names([dispatch.judge("small", asked("small"), Listener())]) == ["small"]
    dispatch.close()


def test_a_fault_of_the_problem_is_final() -> None:
    cluster = MadeUp({"one": lambda order: fault("it is no reference", 2)})
    dispatch = ready(opened(cluster), 1)
    for number in range(2 * FAULTS_IN_A_ROW):
        answer = dispatch.judge(str(number), asked("any"), Listener())
        assert answer.fault is not None
        assert answer.fault.exit_code == 2
    dispatch.close()
    assert len(cluster.given) == 2 * FAULTS_IN_A_ROW


def test_with_nobody_left_a_job_ends_and_says_why() -> None:
    cluster = MadeUp({"only": lambda order: Reply(unfit="no sum on the GPU")})
    dispatch = ready(opened(cluster), 1)
    with pytest.raises(EnvironmentFault, match="only is set aside: no sum on the GPU"):
        dispatch.judge("a", asked("a"), Listener())
    dispatch.close()


@pytest.mark.parametrize(
    "other",
    [
        Hello(unfit="candidates cannot be isolated"),
        HELLO.model_copy(update={"verifier": "0"}),
        HELLO.model_copy(update={"about": ABOUT.model_copy(update={"version": "0"})}),
        HELLO.model_copy(update={"about": ABOUT.model_copy(update={"gpu": "NVIDIA T4"})}),
    ],
    ids=["unfit", "verifier", "version", "gpu"],
)
def test_judges_unlike_the_first_are_set_aside(other: Hello) -> None:
    cluster = MadeUp({"first": right})
    dispatch = ready(opened(cluster), 1)
    cluster.acts["second"], cluster.hellos["second"] = right, other
    cluster.there.append(Machine("second", "second", 4, 0))
    dispatch._look()
    deadline = time.monotonic() + PATIENCE_S
    while dispatch.slots > 1:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert names(dispatch.judge(text, asked(text), Listener()) for text in "abc") == list("abc")
    dispatch.close()
    assert {name for name, _ in cluster.given} == {"first"}


def test_a_cluster_without_a_judge_is_said() -> None:
    with pytest.raises(EnvironmentFault, match="alone is set aside: no compiler"):
        opened(MadeUp({"alone": right}, {"alone": Hello(unfit="no compiler")}))


def test_what_nobody_wants_any_more_ends() -> None:
    class Gone(Listener):
        def cancelled(self) -> bool:
            return True

    dispatch = ready(opened(MadeUp({"one": right})), 1)
    with pytest.raises(Interrupted):
        dispatch.judge("a", asked("a"), Gone())
    dispatch.close()


def test_a_place_is_a_gpu_or_a_machines_processors() -> None:
    plain, with_gpus = Machine("a", "a", 10, 0), Machine("b", "b", 32, 2)
    assert executor("auto", [plain]) == "emulator"
    assert executor("auto", [plain, with_gpus]) == "cuda"
    assert executor("emulator", [with_gpus]) == "emulator"
    (one,) = places("emulator", [plain, Machine("c", "c", 0, 0)])
    assert (one.slots, one.processors, one.gpus) == (2, 8, 0)
    first, second = places("cuda", [plain, with_gpus])
    assert (first.slots, first.processors, first.gpus) == (4, 16, 1)
    assert first.key != second.key
    (small,) = places("cuda", [Machine("d", "d", 2, 1)])
    assert (small.slots, small.processors) == (1, 2)


def test_a_judges_process_knows_no_secret_and_is_replaced_when_it_dies(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    monkeypatch.setenv("AGENT_SERVICE_TOKEN", "a-token-of-the-user")
    monkeypatch.setenv("SOME_PASSWORD", "pass")
    keeper = Keeper(PLAN.model_dump_json(), 1, stub())
    request.addfinalizer(keeper.close)
    assert Hello.model_validate_json(keeper.hello()) == HELLO

    def answered(text: str) -> Reply:
        return Reply.model_validate_json(keeper.judge(Order(name=text, asked=asked(text)).model_dump_json()))

    first = answered("environment")
    assert first.answer is not None
    known = json.loads(judged(first.answer))
    assert "PATH" in known
    assert not [name for name in known if name.startswith("OPENAI_") or "TOKEN" in name or "PASS" in name]
    assert answered("die").died == "its process ended with code 9"
    again = answered("after it")
    assert again.answer is not None
    assert judged(again.answer) == "after it"


def test_a_process_that_cannot_judge_says_so() -> None:
    keeper = Keeper(PLAN.model_dump_json(), 1, stub(Hello(unfit="no GPU answers")))
    assert Hello.model_validate_json(keeper.hello()).unfit == "no GPU answers"
    reply = Reply.model_validate_json(keeper.judge(Order(name="a", asked=asked("a")).model_dump_json()))
    keeper.close()
    assert reply.unfit == "no GPU answers"


@pytest.mark.parametrize(("killed", "fit"), [(STARTS - 1, True), (STARTS, False)])
def test_a_process_that_was_killed_before_a_word_is_started_again(
    killed: int, fit: bool, tmp_path: Path
) -> None:
    """Whoever killed it, the machine may judge all the same; but not for ever."""
    starts = tmp_path / "starts"
    dies = (
        "import os, pathlib, signal, sys; starts = pathlib.Path(sys.argv[1]); starts.open('a').write('x'); "
        f"len(starts.read_text()) > {killed} or os.kill(os.getpid(), signal.SIGKILL); "
        "sys.stdin.readline(); print(sys.argv[2], flush=True); sys.stdin.read()"
    )
    keeper = Keeper(
        PLAN.model_dump_json(), 1, (sys.executable, "-c", dies, str(starts), HELLO.model_dump_json())
    )
    hello = Hello.model_validate_json(keeper.hello())
    keeper.close()
    assert (hello == HELLO) is fit
    assert fit or hello.unfit == "its process ended with code -9 before it could judge"
    assert len(starts.read_text()) == STARTS


@pytest.mark.parametrize(
    ("address", "kind", "said"),
    [("nowhere", UsageError, "give HOST:PORT"), ("ray://x:1", UsageError, "give HOST:PORT"),
     ("127.0.0.1:1", EnvironmentFault, "nobody answers there")],
)  # fmt: skip
def test_an_address_where_no_cluster_is_is_said_at_once(
    address: str, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        Rays(address)
