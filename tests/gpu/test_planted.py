"""What is concluded from the times of planted variants; the times themselves need a GPU."""

from gpu import planted
from verdicts import refused, verified

from agent.records import Evaluation


def timed(ms: float, lowest: float, highest: float) -> Evaluation:
    evaluation = verified(1, ms).evaluation
    assert evaluation.measurement is not None
    known = evaluation.measurement.model_copy(update={"speedup_interval": (lowest, highest)})
    return evaluation.model_copy(update={"measurement": known})


KNOWN, SLOWER, FASTER = timed(1.0, 0.199, 0.201), timed(1.03, 0.193, 0.195), timed(0.97, 0.205, 0.207)


def test_what_is_clear_of_the_known_kernel_is_kept() -> None:
    found = planted.outcome({"known": KNOWN, "slower": SLOWER, "faster": FASTER})
    assert [found[name]["kept"] for name in ("slower", "faster")] == [False, True]
    near = timed(0.97, 0.2005, 0.207)
    assert planted.outcome({"known": KNOWN, "slower": SLOWER, "faster": near})["faster"]["kept"] is False


def test_nine_of_ten_are_needed_and_times_that_repeat() -> None:
    right = planted.outcome({"known": KNOWN, "slower": SLOWER, "faster": FASTER})
    wrong = planted.outcome({"known": KNOWN, "slower": FASTER, "faster": SLOWER})
    drifted = planted.outcome({"known": timed(1.03, 0.199, 0.201), "slower": SLOWER, "faster": FASTER})
    assert planted.summary([right] * 9 + [wrong])["as_needed"]
    assert not planted.summary([right] * 8 + [wrong] * 2)["as_needed"]
    apart = planted.summary([right] * 9 + [drifted])
    assert not apart["as_needed"]
    assert "not kept in 10 of 10" in planted.words(apart)


def test_a_variant_that_was_not_verified_counts_for_nothing() -> None:
    found = planted.outcome({"known": refused(1).evaluation, "slower": SLOWER, "faster": FASTER})
    assert found["faster"]["kept"] is None
    assert not planted.summary([found])["as_needed"]


def test_each_variant_has_its_number_of_turns() -> None:
    for turns in planted.VARIANTS.values():
        assert f"ext.planted(x.contiguous(), {turns})" in planted.SOURCE.replace("TURNS", str(turns))
