"""Reader of a transcript's new events while the transcript is being written."""

from agent.errors import EnvironmentFault
from agent.records import Event
from agent.store.folder import Run
from agent.store.lines import Blobs, UnreadableLine, decode
from agent.store.log import Damage
from agent.store.writer import BLOBS, EVENTS, is_being_written


class Tail:
    """Reader of one run's new events. Holds no file open and writes nothing."""

    def __init__(self, run: Run) -> None:
        self._path = run.path / EVENTS
        self._folder = run.path
        self._blobs = Blobs(run.path / BLOBS)
        self._bytes = 0
        self._lines = 0

    def look(self) -> tuple[list[Event | Damage], bool]:
        """Return the events since the last call, damaged lines as Damage, and whether more may come.

        An event counts once its newline is written. Raises EnvironmentFault when the file cannot be read.
        """
        # The writer is checked before reading, so that the last lines of a writer that has ended are read
        # below.
        alive = is_being_written(self._folder)
        found: list[Event | Damage] = []
        for line in self._new_lines():
            self._lines += 1
            try:
                found.append(decode(line, self._blobs.fetch))
            except UnreadableLine as error:
                found.append(Damage(self._lines, str(error)))
        return found, alive

    def _new_lines(self) -> list[bytes]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._bytes)
                content = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise EnvironmentFault(f"cannot read {self._path}: {error.strerror}") from error
        complete = content.rfind(b"\n") + 1
        self._bytes += complete
        return content[:complete].split(b"\n")[:-1]
