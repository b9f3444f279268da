"""The provider `file:PATH`: its answer is a Python file or a whole answer in Markdown."""

from pathlib import Path

from agent.errors import EndpointError, UsageError
from agent.records import Completion, Prompt

LARGEST_BYTES = 2**20


class Given:
    """A provider with one answer from a file. The constructor raises UsageError for an unusable file."""

    def __init__(self, path: str) -> None:
        self.name = f"file:{path}"
        file = Path(path).expanduser()
        try:
            size = file.stat().st_size
            content = file.read_bytes() if file.is_file() and size <= LARGEST_BYTES else None
        except OSError as error:
            raise UsageError(f"--provider file:{path}: {error.strerror}") from error
        if content is None:
            raise UsageError(f"--provider file:{path}: give a regular file of at most 1 MiB")
        try:
            self._text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(f"--provider file:{path}: not UTF-8 text") from error
        self._answered = False

    def complete(self, prompt: Prompt) -> Completion:
        """Return the only answer. Raises EndpointError if a second or better answer is requested."""
        if self._answered or prompt.template != "generate":
            raise EndpointError(f"{self.name} holds one answer and nothing better")
        self._answered = True
        return Completion(provider=self.name, model=None, text=self._text, finish_reason="stop")
