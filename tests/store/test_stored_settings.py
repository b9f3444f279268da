"""What a run stores of how it was asked for is what a resumed run has."""

from typing import Any

from transcripts import SETTINGS

from agent.api import stored
from agent.api.checks import Checks
from agent.api.choices import Choices
from agent.settings import Settings

GIVEN: dict[str, Any] = {
    "gpu": "H100", "search": "evolve", "plan": False, "parallel": 3, "stop": ("END",), "max_cost": 1.5,
    "extra_body": {"top_k": 20}, "provider": "mailbox:box", "rounds": 9, "patience": 4, "executor": "cuda",
}  # fmt: skip


def test_settings_go_there_and_back() -> None:
    given = Settings.model_validate(GIVEN)
    asked = SETTINGS.model_copy(
        update={
            "provider": given.provider, "executor": "cuda", "rounds": 9, "patience": 4,
            "options": stored.options(given, Checks(quick=True), Choices(require="fast", autofix=False)),
        }
    )  # fmt: skip
    again = {name: value for name, value in stored.settings(asked).items() if value is not None}
    assert Settings.model_validate(again) == given
    assert stored.checked(Checks(backward=True), asked) == Checks(quick=True, backward=True)
    assert (asked.options["require"], asked.options["mend"]) == ("fast", False)


def test_a_run_from_before_there_were_policies_goes_on_as_it_did() -> None:
    found = stored.settings(SETTINGS)
    assert (found["search"], found["plan"], found["samples"]) == ("line", False, None)
