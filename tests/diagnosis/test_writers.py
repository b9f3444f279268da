"""Which threads wrote the wrong elements: said where that sets them apart, and not otherwise."""

import pytest
import torch
from diagnosis import followed as recorded

from agent.diagnosis.where import writers
from agent.diagnosis.where.following import Followed, Kernel, Output, Writers, output

COUNT, BLOCKS, THREADS = 960, 5, 64
PLACE = torch.arange(COUNT)
BLOCK, THREAD = PLACE // 192, PLACE % THREADS
TIMES = PLACE % 192 // THREADS
"""Five blocks of 64 threads, each of which writes three elements."""
ALONE = torch.zeros(COUNT, dtype=torch.bool)
KERNEL = Kernel("k", 3, (BLOCKS, 1, 1), (THREADS, 1, 1))


def _pattern(wrong: torch.Tensor, kernels: list[Kernel] | None = None, **other: torch.Tensor) -> str | None:
    known = Writers(torch.ones(COUNT, dtype=torch.int64), BLOCK, THREAD, TIMES, ALONE, ALONE)
    made = Output(torch.zeros(COUNT), known._replace(**other))
    return writers.pattern(wrong, made, Followed(kernels or [KERNEL], [], [made]))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (THREAD >= 32, "by threads with threadIdx.x >= 32"),
        (THREAD < 5, "by threads with threadIdx.x < 5"),
        (THREAD == 0, "by threads with threadIdx.x == 0"),
        (THREAD % 32 == 31, "by lane 31"),
        (THREAD % 2 == 1, "by threads with threadIdx.x odd"),
        (BLOCK == 4, "by the last block"),
        (BLOCK == 1, "by block 1"),
        (BLOCK >= 2, "by blocks from 2 on"),
        (BLOCK != 3, "by all blocks but 3"),
        (TIMES == 0, "by the 1st store of each thread"),
        (TIMES >= 1, "by stores of each thread after its first"),
        (
            (THREAD >= 32) & (PLACE != 40),
            "by threads with threadIdx.x >= 32 (479 of the 480 that they wrote)",
        ),
        (PLACE % 7 == 0, None),
        (PLACE >= 0, None),
        (PLACE == 3, None),
    ],
)
def test_the_pattern_is_said_in_the_words_of_the_launch(wrong: torch.Tensor, words: str | None) -> None:
    assert _pattern(wrong) == words


def test_elements_that_no_thread_wrote() -> None:
    lost = PLACE >= 700
    assert _pattern(lost, launch=(~lost).long()) == "by no thread"


def test_elements_that_two_threads_wrote() -> None:
    twice = PLACE % 3 == 0
    assert _pattern(twice, several=twice) == "by two or more threads each, and the last one wins"
    assert _pattern(twice, several=twice, atomic=~ALONE) == "by several threads each"


def test_of_atomic_updates_the_last_thread_says_nothing() -> None:
    assert _pattern(THREAD >= 32, atomic=~ALONE) is None


def test_elements_of_another_kernel() -> None:
    launch = 1 + (PLACE >= 600).long()
    kernels = [KERNEL, KERNEL._replace(name="tail")]
    assert _pattern(PLACE >= 600, kernels, launch=launch) == "by kernel `tail`, the others by `k`"
    assert _pattern((PLACE >= 600) & (PLACE < 700), kernels, launch=launch) is None


def test_rows_of_a_grid_are_told_by_their_own_index() -> None:
    kernel = Kernel("k", 3, (3, 5, 1), (8, 8, 1))
    block, thread = PLACE // 64, PLACE % 64
    known = {"block": block, "thread": thread, "times": torch.zeros_like(PLACE)}
    assert _pattern(block // 3 == 4, [kernel], **known) == "by blocks from 12 on"
    assert _pattern(block // 3 == 2, [kernel], **known) == "by blocks with blockIdx.y == 2"
    assert _pattern(thread // 8 == 7, [kernel], **known) == "by threads with threadIdx.y == 7"


def test_each_element_of_an_output_has_its_own_writer_whatever_its_strides() -> None:
    cells = (torch.ones(24, dtype=torch.int64) << 52) | (torch.arange(24) << 18)
    values = torch.arange(24, dtype=torch.float32)
    turned = output(values.view(torch.uint8), cells, torch.float32, [6, 4], [1, 6])
    assert torch.equal(turned.values, values.reshape(4, 6).t())
    assert turned.writers.thread.tolist() == [c * 6 + r for r in range(6) for c in range(4)]
    assert set(turned.writers.launch.tolist()) == {1}
    half = output(values.half().view(torch.uint8), cells[:12], torch.float16, [24], [1])
    assert half.writers.thread.tolist() == [place // 2 for place in range(24)]


def test_a_replay_made_by_hand_is_like_a_true_one() -> None:
    seen = recorded.followed([("a", (torch.zeros(4, 2),))], [torch.ones(8)])
    assert seen.writings[0].elements(torch.float32) is not None
    assert bool(seen.writings[0].written(torch.float32).all())
    assert seen.writings[0].is_constant
