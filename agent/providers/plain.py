"""Prompts as one text, for programs, chat windows and people that take no list of messages."""

from agent.records import Prompt


def text_of(prompt: Prompt) -> str:
    """Return the messages of a prompt in order as one text, with nothing added."""
    return "\n".join(message.content.strip("\n") + "\n" for message in prompt.messages)
