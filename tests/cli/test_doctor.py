"""Tests of the endpoint's line in `agent doctor`."""

from agent.cli.doctor import _endpoint
from agent.settings import Settings


def test_a_program_that_is_there_needs_no_endpoint() -> None:
    found = _endpoint(Settings(provider="command:sh -c 'cat /dev/null'"))
    assert (found.state, found.found) == ("ok", "none needed: answers come from command sh")


def test_a_program_that_is_missing_is_named() -> None:
    found = _endpoint(Settings(provider="command:no-such-program-here --fast"))
    assert found.state == "note"
    assert "no-such-program-here" in found.mend


def test_a_mailbox_needs_no_endpoint() -> None:
    found = _endpoint(Settings(provider="mailbox:box"))
    assert (found.state, found.found) == ("ok", "none needed: answers come from mailbox box")
