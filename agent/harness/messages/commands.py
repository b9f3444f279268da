"""Commands of the judge to oracle and worker, written from the records that the receiving process declares.

Each writer raises Malformed for a record whose fields do not have the declared types, which is our defect.
"""

import secrets
from typing import Any

from agent.errors import defect
from agent.harness.messages import oracle_commands
from agent.harness.task.conditions import fresh_word
from agent.harness.worker import worker_commands
from agent.sandbox import messages

Message = dict[str, Any]
_NAMES = (
    ("my", "new", "custom", "fused", "fast", "cuda"),
    ("model", "module", "kernels", "layer", "ops", "net"),
)


def to_oracle(command: oracle_commands.Command) -> Message:
    return dict(messages.written(command, oracle_commands.Command))


def to_worker(command: worker_commands.Command) -> Message:
    return dict(messages.written(command, worker_commands.Command))


def load(*, ahead: bool = False) -> Message:
    """Return the command to load the candidate's file as a module with a random, plausible name.

    The name differs between processes, so that a candidate cannot recognise the judge by it.
    """
    name = "_".join(map(secrets.choice, _NAMES)) + secrets.choice(("", "2", "3", "_v2"))
    return to_worker(worker_commands.Load(name, ahead))


def instance(manifest: Message, *, keeps_former: bool = False) -> Message:
    """Return the command to make ModelNew with the parameters in the oracle's answer to `Parameters`."""
    given = {key: value for key, value in manifest.items() if key != "strength"}
    return to_worker(worker_commands.Instance(**given, keeps_former=keeps_former))


def call(
    drawn: Message,
    stem: str,
    *,
    send_back: str | None = None,
    checked: bool = False,
    keep_all: bool = False,
    conditions: worker_commands.Conditions | None = None,
) -> Message:
    """Return the command to call forward on the inputs in the oracle's answer to `Draw`."""
    given = {key: value for key, value in drawn.items() if key != "stem"}
    return to_worker(
        worker_commands.Call(
            **given,
            stem=stem,
            send_back=send_back,
            checked=checked,
            keep_all=keep_all,
            conditions=conditions,
            fresh=fresh_word(conditions),
        )
    )


def judged(outputs: Message, answer: Message, sent_back: str, *, repeat: bool) -> Message:
    """Return the command for the oracle to judge the outputs of one call and the worker's claims about it."""
    claims = oracle_commands.Claims(
        overlaps=answer["overlaps"], types=answer["types"], devices=answer["devices"],
        written_bands=answer.get("written_bands"), gone=answer.get("gone"), sent_back=sent_back,
    )  # fmt: skip
    return to_oracle(oracle_commands.Judge(outputs, claims, repeat))


def require_taken(answer: Message, command: Message) -> None:
    """Raise an error if the worker answered that it does not know the command.

    The validity of the command decides whose fault that is, since the candidate may have written the answer.
    Raises EnvironmentFault for an invalid command, which is our defect. Raises Malformed for a valid command,
    which the worker has to know.
    """
    if worker_commands.REFUSED not in answer:
        return
    try:
        messages.read(command, worker_commands.Command)
    except messages.Malformed as error:
        said = str(answer[worker_commands.REFUSED])[:2000]
        raise defect("the judge", f"its command {command['do']} was refused{error}", said) from None
    raise messages.Malformed(": a command that is one is refused")
