"""A prompt as one text, for those who take no list of messages: programs, chat windows, people."""

from agent.records import Prompt


def text_of(prompt: Prompt) -> str:
    """The messages in their order, the rules first, with nothing added to them."""
    return "\n".join(message.content.strip("\n") + "\n" for message in prompt.messages)
