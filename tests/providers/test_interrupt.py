"""Ctrl-C leaves a request at once, wherever it is."""

import signal
import subprocess
import sys

import pytest
from endpoint import Behaviour, Endpoint, hang, status, stream
from interrupting import PATIENCE_S, interruptible
from providers.asking import KEY, _bare_environment  # noqa: F401 - an autouse fixture

ASK = """
import sys
from pydantic import SecretStr
from agent.providers.openai_compat import EndpointSettings, OpenAICompat
from agent.records import Message, Prompt
settings = EndpointSettings(base_url=sys.argv[1], api_key=SecretStr(sys.argv[2]), model="m")
announce = lambda event: print(event.kind if hasattr(event, "kind") else "chunk", flush=True)
provider = OpenAICompat(settings, on_retry=announce, on_progress=announce)
print("asking", flush=True)
try:
    provider.complete(Prompt(template="generate", messages=(Message(role="user", content="hi"),)))
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize(
    ("behaviour", "until"),
    [
        (hang(), "asking"),
        (stream("abcdef", hang_after=2), "chunk"),
        (status(429, retry_after="290"), "retry_scheduled"),
    ],
    ids=["before the first byte", "within a stream", "while it waits to ask again"],
)
def test_interrupt(behaviour: Behaviour, until: str) -> None:
    with Endpoint([behaviour]) as endpoint:
        command = [sys.executable, "-c", ASK, endpoint.base_url, KEY]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, preexec_fn=interruptible
        ) as process:
            assert process.stdout is not None
            while process.stdout.readline().strip() != until:
                assert process.poll() is None
            assert endpoint.arrived.wait(PATIENCE_S)
            process.send_signal(signal.SIGINT)
            # Below the waits that it must leave: 300 s of silence, 290 s until the next try.
            assert process.wait(PATIENCE_S) == 130
