from verdicts import refused, verified

from agent import ranking
from agent.records import Attempt


def test_nothing_is_best_until_something_is_verified() -> None:
    assert ranking.better(None, refused(1)) is None


def test_a_verified_attempt_is_never_lost_to_a_later_failure() -> None:
    best = verified(1, executor="emulator")
    assert ranking.better(best, refused(2)) is best


def test_cuda_at_full_shapes_outranks_the_emulator_whatever_the_time() -> None:
    emulated = verified(1, executor="emulator")
    unmeasured = verified(2)
    assert ranking.better(emulated, unmeasured) is unmeasured
    assert ranking.better(unmeasured, verified(3, executor="emulator")) is unmeasured


def test_shrunken_shapes_on_cuda_do_not_outrank_full_ones() -> None:
    full = verified(1, 9.0)
    assert ranking.better(full, verified(2, 1.0, shapes="shrunken")) is full


def test_the_lower_median_wins_and_ties_go_to_the_older() -> None:
    first, faster, same = verified(1, 4.2), verified(2, 4.1), verified(3, 4.1)
    assert ranking.better(first, faster) is faster
    assert ranking.better(faster, same) is faster
    assert ranking.better(faster, verified(4, 4.15)) is faster


def test_a_measured_attempt_is_better_than_one_without_a_time() -> None:
    measured = verified(2, 50.0)
    assert ranking.better(verified(1), measured) is measured
    assert ranking.better(measured, verified(3)) is measured


def test_the_first_verified_attempt_stays_when_no_time_separates_them() -> None:
    first = verified(1, executor="emulator")
    assert ranking.better(first, verified(2, executor="emulator")) is first


def test_a_kernel_of_the_real_sizes_that_never_ran_ranks_below_a_plain_verdict() -> None:
    plain, partial = verified(1, executor="emulator"), without_a_kernel(verified(2, executor="emulator"))
    assert ranking.better(partial, plain) is plain
    assert ranking.better(plain, partial) is plain
    assert ranking.better(None, partial) is partial
    on_gpu = verified(3)
    assert ranking.better(partial, on_gpu) is on_gpu


def without_a_kernel(attempt: Attempt) -> Attempt:
    scope = attempt.evaluation.scope.model_copy(update={"unexercised": ("scan<8>",)})
    return attempt.model_copy(update={"evaluation": attempt.evaluation.model_copy(update={"scope": scope})})
