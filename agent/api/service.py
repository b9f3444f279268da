"""Client of a remote judge service (`agent serve`), and the messages that they exchange.

    import agent

    service = agent.connect("http://127.0.0.1:8780", token="...")
    service.evaluate("level1/softmax", "answer.py").status

A job is identified by its content, so repeating a request never judges a candidate twice. A client that
lost its connection therefore repeats the request until it has an answer.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from agent import config
from agent.api.checks import Checks
from agent.errors import AgentError, EnvironmentFault, ProblemError, UsageError
from agent.records import Admission, Candidate, Evaluation, Problem, Record

if TYPE_CHECKING:
    import httpx2

POLL_S = 20.0
"""Maximum time that one request waits for a verdict, in seconds."""
REQUEST_S = 60.0
PATIENCE_S = 300.0
"""Time for which requests are repeated while the service is unavailable, in seconds."""
_PAUSE_S = 0.5
State = Literal["queued", "running", "done", "failed"]


class ProblemText(Record):
    """A reference that is sent as text."""

    name: str = Field(max_length=200)
    source: str = Field(max_length=2**20)


class Asked(Record):
    """Request to judge one candidate or, without a candidate, to admit a problem."""

    problem: str | ProblemText
    """Name of a reference that the service has, or the text of one."""
    candidate: str | None = None
    checks: Checks = Checks()


class Fault(Record):
    """Reason why there is no verdict. `exit_code` classifies the fault, as on the command line."""

    exit_code: int
    message: str


class Answer(Record):
    """State of a job, with its result once it is done."""

    id: str
    state: State
    evaluation: Evaluation | None = None
    admission: Admission | None = None
    fault: Fault | None = None


class About(Record):
    """Version and hardware of a judge service."""

    version: str
    executor: Literal["cuda", "emulator"]
    gpu: str | None
    architecture: str | None
    """Architecture of its GPU, such as `90a`."""
    isolation: str


class Service:
    """Client of one service. Threads may share it."""

    def __init__(self, url: str, token: str | None = None, *, patience_s: float = PATIENCE_S) -> None:
        """Create a client. `token` defaults to the setting `service_token`.

        Raises UsageError for an invalid URL.
        """
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"{url!r} is no URL of a service; it begins with http:// or https://")
        known = config.load({}, offline=True).settings.service_token
        self._token = token or (known.get_secret_value() if known else "")
        self._url, self._patience_s = url.rstrip("/"), patience_s

    def about(self) -> About:
        return About.model_validate(self._asked("GET", "/v1/about"))

    def evaluate(
        self, problem: str | Problem, candidate: str | Path | Candidate, checks: Checks | None = None
    ) -> Evaluation:
        """Return the verdict on one candidate, given as a path or a Candidate.

        `problem` is a name that the service knows, or a Problem, whose text is sent.
        Raises UsageError, ProblemError and EnvironmentFault as `agent.evaluate` does.
        """
        if not isinstance(candidate, Candidate):
            try:
                text = Path(candidate).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"cannot read candidate {candidate}: {error}") from None
        else:
            text = candidate.source
        answer = self._result(Asked(problem=_sent(problem), candidate=text, checks=checks or Checks()))
        assert answer.evaluation is not None
        return answer.evaluation

    def evaluate_all(
        self, problem: str | Problem, candidates: Sequence[str | Path | Candidate],
        checks: Checks | None = None, parallel: int = 16,
    ) -> tuple[Evaluation, ...]:  # fmt: skip
        """Return the verdicts in the order of the candidates, judged up to `parallel` at a time."""
        with ThreadPoolExecutor(parallel) as pool:
            return tuple(pool.map(lambda one: self.evaluate(problem, one, checks), candidates))

    def admit(self, problem: Problem, checks: Checks) -> Admission:
        """Return the admission of the problem by the service. Raises ProblemError if it may not be judged."""
        answer = self._result(Asked(problem=_sent(problem), checks=checks))
        assert answer.admission is not None
        return answer.admission

    def _result(self, asked: Asked) -> Answer:
        body = asked.model_dump(mode="json", exclude_defaults=True)
        answer = self._answer("POST", "/v1/evaluations", body)
        while answer.state in ("queued", "running"):
            answer = self._answer("GET", f"/v1/evaluations/{answer.id}?wait={POLL_S:g}", None)
        if answer.fault is not None:
            raise _raised(answer.fault)
        return answer

    def _answer(self, method: str, path: str, body: dict[str, Any] | None) -> Answer:
        return Answer.model_validate(self._asked(method, path, body))

    def _asked(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the JSON of an answer. Repeats the request while the service is unavailable or full."""
        import httpx2

        deadline = time.monotonic() + self._patience_s
        while True:
            why = ""
            try:
                answer = httpx2.request(
                    method, self._url + path, json=body, timeout=REQUEST_S, trust_env=False,
                    headers={"authorization": f"Bearer {self._token}"} if self._token else {},
                )  # fmt: skip
                if answer.status_code not in (429, 502, 503, 504):
                    return self._read(answer)
                why = f"status {answer.status_code}"
            except httpx2.TransportError as error:
                why = str(error) or type(error).__name__
            if time.monotonic() > deadline:
                raise EnvironmentFault(f"the service at {self._url} does not answer: {why}")
            time.sleep(_PAUSE_S)

    def _read(self, answer: "httpx2.Response") -> Any:
        try:
            said = answer.json()
        except ValueError:
            raise EnvironmentFault(f"{self._url} answered {answer.status_code} and no JSON") from None
        if answer.is_success:
            return said
        reason = str(said.get("detail", said) if isinstance(said, dict) else said)[:500]
        if answer.status_code == 401:
            raise UsageError(f"the service at {self._url} refuses the token; set AGENT_SERVICE_TOKEN")
        kind = UsageError if answer.is_client_error else EnvironmentFault
        raise kind(f"the service at {self._url} answered {answer.status_code}: {reason}")


def connect(url: str, token: str | None = None) -> Service:
    """Return a client of the judge service at `url`. Makes no request."""
    return Service(url, token)


class Remote:
    """The executor that judges on a service, with the interface of `LocalExecutor`."""

    def __init__(self, service: Service, checks: Checks) -> None:
        """Ask the service what it judges on. Raises EnvironmentFault if it does not answer."""
        self._service, self._checks = service, checks
        self.about = service.about()
        self.name = self.about.executor

    def admit(self, problem: Problem, anyway: bool = False) -> Admission:
        """Admit the problem. Raises ProblemError if it lets wrong answers pass, unless `anyway` is set."""
        return self._service.admit(problem, self._checks.model_copy(update={"admit_anyway": anyway}))

    def is_admission_known(self, problem: Problem) -> bool:
        """Return False, since only the service knows."""
        return False

    def prepare(self, problem: Problem) -> None:
        """Do nothing, since the service prepares itself."""

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        """Return the final verdict. The service also makes the second look where one is due."""
        return self._service.evaluate(problem, candidate, self._checks)

    def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        return evaluation


def _sent(problem: str | Problem) -> str | ProblemText:
    if isinstance(problem, Problem):
        return ProblemText(name=problem.name, source=problem.source)
    return problem


def _raised(fault: Fault) -> AgentError:
    if fault.exit_code == ProblemError.exit_code:
        return ProblemError(fault.message)
    return EnvironmentFault(fault.message)


def answer_of(text: str) -> Answer | None:
    """Return a stored answer, or None if an earlier version stored it in another format."""
    try:
        return Answer.model_validate_json(text)
    except ValidationError:
        return None
