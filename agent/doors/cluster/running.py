"""A cluster from its address to a service's judges, or to a service beside a bench."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from agent.api.listening import Listener
from agent.api.service import About
from agent.config import Settings
from agent.doors.cluster.dispatch import Cluster, Dispatch
from agent.doors.cluster.messages import Plan
from agent.doors.cluster.places import Machines, executor
from agent.doors.service.running import beside
from agent.doors.service.work import Here, Judging
from agent.errors import UsageError

SENT = ("candidate_timeout", "library_ops", "baselines", "gpu", "unchecked")
"""Settings that judges heed; no other leaves this machine."""


class Judges(NamedTuple):
    """What a cluster has."""

    judging: Judging
    about: About
    slots: int
    """Candidates at the same time, as far as is known."""


class Beside(NamedTuple):
    """The same as a service for the processes of this machine."""

    url: str
    token: str
    slots: int


@contextmanager
def judges(
    cluster: Machines, settings: Settings, folder: Path, trusts: bool, told: Listener
) -> Iterator[Judges]:
    """Judges on a cluster, from the first that is ready on.

    `folder`: for the texts of references; `trusts`: whether those are taken from clients.

    Raises EnvironmentFault where no judge gets ready, UsageError for settings that name another one.
    """
    if settings.service is not None:
        raise UsageError("--cluster judges on a cluster; leave out the service that --executor names")
    name = executor(settings.executor, cluster.machines())
    kept = settings.model_dump(mode="json", include=set(SENT), exclude_none=True)
    dispatch = Dispatch(cluster, Plan(executor=name, flags=kept), told)
    try:
        about = dispatch.open()
        settings = settings.model_copy(update={"gpu": settings.gpu or about.gpu})
        here = Here(settings, folder, f"{about.executor} {about.gpu}", trusts)
        yield Judges(Cluster(here, dispatch), about, dispatch.slots)
    finally:
        dispatch.close()


@contextmanager
def service(cluster: Machines, settings: Settings, folder: Path, told: Listener) -> Iterator[Beside]:
    """A service on the loopback, for as long as the bench goes on whose folder it is.

    What was judged is known to the next one in the same folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (
        judges(cluster, settings, folder, True, told) as found,
        beside(found.judging, found.about, folder, 2 * found.slots) as (url, token),
    ):
        yield Beside(url, token, found.slots)
