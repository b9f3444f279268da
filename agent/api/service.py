"""A judge service elsewhere, as `agent serve` runs it: its client, and what goes over the wire.

    import agent

    service = agent.connect("http://127.0.0.1:8780", token="...")
    service.evaluate("level1/softmax", "answer.py").status

What is asked for is named by its content: asking again is never judging again, so a client that lost the
connection asks again until there is an answer.
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
"""So long one request waits for a verdict."""
REQUEST_S = 60.0
PATIENCE_S = 300.0
"""So long a service that does not answer is asked again: it may be starting anew."""
_PAUSE_S = 0.5
State = Literal["queued", "running", "done", "failed"]


class ProblemText(Record):
    """A reference as it is sent."""

    name: str = Field(max_length=200)
    source: str = Field(max_length=2**20)


class Asked(Record):
    """One candidate to judge, or, without one, a problem to prepare."""

    problem: str | ProblemText
    """A reference that the service has, by name, or its text."""
    candidate: str | None = None
    checks: Checks = Checks()


class Fault(Record):
    """Why there is no verdict; `exit_code` says whose fault it is, as on the command line."""

    exit_code: int
    message: str


class Answer(Record):
    """What has come of a job."""

    id: str
    state: State
    evaluation: Evaluation | None = None
    admission: Admission | None = None
    fault: Fault | None = None


class About(Record):
    """What a service judges on."""

    version: str
    executor: Literal["cuda", "emulator"]
    gpu: str | None
    architecture: str | None
    """Of its GPU, as `90a`."""
    isolation: str


class Service:
    """A client; several threads may use one."""

    def __init__(self, url: str, token: str | None = None, *, patience_s: float = PATIENCE_S) -> None:
        """`token`: by default the setting `service_token`. Raises UsageError for what is no URL."""
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
        """The verdict on one candidate: a path, or a Candidate. `problem`: a name of the service's, or a
        Problem, whose text is sent.

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
        """The verdicts in the order of the candidates."""
        with ThreadPoolExecutor(parallel) as pool:
            return tuple(pool.map(lambda one: self.evaluate(problem, one, checks), candidates))

    def admit(self, problem: Problem, checks: Checks) -> Admission:
        """What probing the problem found there. Raises ProblemError where it may not be judged."""
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
        """The JSON of an answer; asked again while the service is away or has no room."""
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
    """The judge service at a URL; contacts nobody yet."""
    return Service(url, token)


class Remote:
    """The executor of a service, for one problem: `name`, `admit`, `evaluate` and `confirm` of any other."""

    def __init__(self, service: Service, checks: Checks) -> None:
        """Raises EnvironmentFault where the service does not answer."""
        self._service, self._checks = service, checks
        self.about = service.about()
        self.name = self.about.executor

    def admit(self, problem: Problem, anyway: bool = False) -> Admission:
        """Raises ProblemError for a problem that would let wrong answers pass, unless `anyway`."""
        return self._service.admit(problem, self._checks.model_copy(update={"admit_anyway": anyway}))

    def is_admission_known(self, problem: Problem) -> bool:
        """Return False: only the service knows."""
        return False

    def prepare(self, problem: Problem) -> None:
        """Do nothing: the service has what it needs."""

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        """The verdict that stands: the service makes the second look as well, where one is due."""
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
    """A stored answer; None for one that a version before this one wrote otherwise."""
    try:
        return Answer.model_validate_json(text)
    except ValidationError:
        return None
