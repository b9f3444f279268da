"""Carrying a bench out: shares of the budget, processes that die, what is left alone."""

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api.listening import Listener
from agent.bench import Outcome, candidates, outcomes, work
from agent.bench.folder import Limits
from agent.bench.pool import Pool
from agent.bench.report import report
from agent.bench.suite import Case
from agent.bench.worker import Done, News, Order
from agent.errors import UsageError
from bench import made

ECHO = """
import json, os, sys
for line in sys.stdin:
    order = json.loads(line)
    label = order["label"]
    print("no message at all", flush=True)
    print(json.dumps({"label": label, "text": str(os.getpid())}), flush=True)
    if "waits" in label:
        sys.stdin.readline()
    if "dies" in label:
        os._exit(7)
    print(json.dumps({"label": label, "fault": "", "ending": "failed", "fatal": False}), flush=True)
"""
STUB = (sys.executable, "-c", ECHO)


def order(label: str) -> Order:
    return Order(label=label, address="level1/softmax", runs_dir=Path("runs"))


def until_done(pool: Pool, count: int) -> tuple[list[Done], list[News]]:
    done: list[Done] = []
    news: list[News] = []
    while len(done) < count:
        for message in pool.news(60.0):
            if isinstance(message, Done):
                done.append(message)
            else:
                news.append(message)
    return done, news


def test_a_process_goes_on_to_the_next_order_and_one_that_dies_is_replaced() -> None:
    with Pool(1, command=STUB) as pool:
        pool.begin(order("first"))
        assert not pool.free
        assert pool.busy == ("first",)
        (done,), news = until_done(pool, 1)
        assert done == Done(label="first")
        assert news[0].text == "no message at all"
        pool.begin(order("dies"))
        (dead,), then = until_done(pool, 1)
        assert dead.label == "dies"
        assert "ended with code 7" in dead.fault
        assert then[-1].text == news[-1].text, "the same process"
        pool.begin(order("last"))
        (done,), last = until_done(pool, 1)
        assert done == Done(label="last")
        assert last[-1].text != news[-1].text, "another process"


def test_a_killed_process_is_told_and_no_process_outlives_the_pool() -> None:
    with Pool(2, command=STUB) as pool:
        pool.begin(order("waits"))
        said: list[News | Done] = []
        while not any(isinstance(one, News) and one.text.isdecimal() for one in said):
            said += pool.news(60.0)
        process = next(int(one.text) for one in said if isinstance(one, News) and one.text.isdecimal())
        os.kill(process, signal.SIGKILL)
        (dead,), _ = until_done(pool, 1)
        assert "code -9" in dead.fault
        pool.begin(order("waits too"))
        said = []
        while not any(isinstance(one, News) and one.text.isdecimal() for one in said):
            said += pool.news(60.0)
        process = next(int(one.text) for one in said if isinstance(one, News) and one.text.isdecimal())
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_each_process_sees_the_gpu_that_it_was_given(tmp_path: Path) -> None:
    tells = (
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    fault = os.environ['CUDA_VISIBLE_DEVICES']\n"
        "    done = {'label': json.loads(line)['label'], 'fault': fault}\n"
        "    print(json.dumps(done), flush=True)\n"
    )
    with Pool(3, ("4", "7"), command=(sys.executable, "-c", tells)) as pool:
        for label in "abc":
            pool.begin(order(label))
        done, _ = until_done(pool, 3)
    assert sorted(one.fault for one in done) == ["4", "4", "7"]


@given(
    limit=st.integers(1, 10_000), jobs=st.integers(1, 6), runs=st.integers(1, 12),
    uses=st.lists(st.floats(0, 1), min_size=12, max_size=12),
)  # fmt: skip
def test_shares_never_add_up_to_more_than_the_limit(
    limit: int, jobs: int, runs: int, uses: list[float]
) -> None:
    """Runs that use some part of their share, several at a time."""
    used, waiting = work.Used(), runs
    in_flight: list[work.Share] = []
    while waiting or in_flight:
        while waiting and len(in_flight) < jobs:
            share = work.share(Limits(tokens=limit), used, in_flight, seconds_left=None, waiting=waiting)
            assert share.tokens is not None
            waiting -= 1
            if not share.empty:
                in_flight.append(share)
            assert used.tokens + sum(one.tokens or 0 for one in in_flight) <= limit
        if in_flight:
            spent = int((in_flight.pop(0).tokens or 0) * uses[waiting])
            used = used.model_copy(update={"tokens": used.tokens + spent})


def test_what_one_leaves_the_next_may_use() -> None:
    limits = Limits(tokens=1000, cost_usd=10.0)
    first = work.share(limits, work.Used(), (), seconds_left=100.0, waiting=4)
    assert (first.tokens, first.cost_usd, first.seconds) == (250, 2.5, 25.0)
    last = work.share(limits, work.Used(tokens=100, cost_usd=1.0), (), seconds_left=5.0, waiting=1)
    assert (last.tokens, last.cost_usd, last.seconds) == (900, 9.0, 5.0)
    gone = work.share(limits, work.Used(tokens=1000), (), seconds_left=None, waiting=1)
    assert gone.empty


def test_what_a_run_has_used_counts_once() -> None:
    """Among what is used, and beside its new share where it goes on; a run begun anew has used nothing."""
    before = Outcome(address="one/a", group="one", sample=1, run="r", tokens=300, resumable=True)
    assert work.Used.by([before, before.model_copy(update={"tokens": 50})]).tokens == 350
    left = work.Share(tokens=100, seconds=5.0)
    assert left.flags(before) == {"max_tokens": 400, "max_time": 5.0}
    assert left.flags(before.model_copy(update={"resumable": False})) == {"max_tokens": 100, "max_time": 5.0}


def test_what_is_over_is_left_alone(tmp_path: Path) -> None:
    bench = made.bench(tmp_path, ("one/a", "one/b"))
    made.run(bench, "one/a#1", [made.verified(None)])
    made.run(bench, "one/b#1", [made.wrong()])
    with Pool(1, command=("/bin/false",)) as pool:
        work.carry(bench, pool, 1, Listener())
    assert [one.ending for one in outcomes(bench)] == ["verified", "unsolved"]


@pytest.mark.parametrize(
    ("address", "sample", "name"),
    [
        ("kernelbench:1/35", 1, "1_35.py"),
        ("kernelbench:1/35", 2, "1_35.2.md"),
        ("kernelbench:1/35", 2, "level_1_problem_35_sample_1_kernel.py"),
        ("level1/softmax", 1, "softmax.md"),
        ("level1/softmax", 3, "level1_softmax.3.py"),
        ("/some/where/mine.py", 1, "mine.py"),
    ],
)
def test_files_are_found_by_their_problem(tmp_path: Path, address: str, sample: int, name: str) -> None:
    (tmp_path / name).touch()
    found = candidates.found(tmp_path, [Case(address=address, group="g")], samples=3)
    assert found == {(address, sample): tmp_path / name}


def test_a_folder_that_answers_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"looked for as level1_softmax\.1\.py"):
        candidates.found(tmp_path, [Case(address="level1/softmax", group="g")], 1)


def test_what_a_run_used_that_was_begun_anew_counts(tmp_path: Path) -> None:
    bench = made.bench(tmp_path, ("level1/softmax",))
    for outcome in ("failed", "no_kernel"):
        made.run(bench, "level1/softmax#1", [made.wrong()], outcome, tokens=100)
    (one,) = outcomes(bench)
    assert (one.ending, one.tokens, one.lost_tokens) == ("unsolved", 100, 100)
    used = work.Used.by([one])
    assert used.tokens == 200
    assert used.cost_usd == pytest.approx(0.2)
    assert one.lost_cost_usd == pytest.approx(0.1)
    assert report(bench).whole.spending.tokens == 200
