"""The page with one whole prompt of each kind, from the golden files that `tests/prompts` compares."""

from collections.abc import Iterator
from pathlib import Path

from agent import prompts
from agent.problems import gpu_cards, roofline

GOLDEN = Path(__file__).resolve().parents[1] / "prompts" / "golden"
KINDS = {
    "system": "The rules. They open every request, whatever it asks for; the card is that of the GPU at "
    "hand, or of the one that `--gpu` names.",
    "plan": "Before any kernel, with `--plan` and with `evolve`: approaches, ranked by the time that each "
    "should reach.",
    "generate": "The first question.",
    "repair": "After an answer that was refused; the best verified one stands beside it.",
    "optimise": "After a verified answer.",
    "combine": "Two verified answers at once.",
}
"""In the order of the page. The texts are of one made-up problem, so that each kind has something to show."""


def lines(generated: str) -> Iterator[str]:
    """The page, line by line."""
    yield from ("# Prompts", "", generated, "")
    yield from (
        "What a model is asked, whole. The words are in `prompts/*.jinja2`; which section may take how much",
        "is in `agent/sections.py`; what a GPU is said to be in `agent/problems/gpu_cards.py`.", "",
    )  # fmt: skip
    for kind, meaning in KINDS.items():
        path = GOLDEN / f"{kind}.txt"
        if path.is_file():
            yield from (
                f"## {kind}",
                "",
                meaning,
                "",
                prompts.fenced(path.read_text(encoding="utf-8"), "text"),
                "",
            )
    yield from (
        "## The GPUs that have a card",
        "",
        "| GPU | compute capability | multiprocessors | L2 | copy |",
    )
    yield "|---|---|---|---|---|"
    for name in roofline.GPUS:
        card = gpu_cards.card(name)
        assert card is not None
        copied = f"{card.copy_gb_s:.0f} GB/s" if card.copy_gb_s else "not measured here"
        yield (
            f"| {name} | {card.architecture.capability} ({card.architecture.name}) | {card.multiprocessors} "
            f"| {card.l2_mb:g} MB | {copied} |"
        )
