"""Turn a cluster's address into judges of a service, or into a service for the runs of a bench."""

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
"""Settings that judges use; no other setting leaves this machine."""


class Judges(NamedTuple):
    """The judges of a cluster as one service can use them."""

    judging: Judging
    about: About
    slots: int
    """Number of candidates that the judges known so far take at the same time."""


class Beside(NamedTuple):
    """A service whose judges are on a cluster and whose clients are processes of this machine."""

    url: str
    token: str
    slots: int


@contextmanager
def judges(
    cluster: Machines, settings: Settings, folder: Path, trusts: bool, told: Listener
) -> Iterator[Judges]:
    """Yield the judges of a cluster as soon as the first one is ready.

    `folder` keeps the texts of references; `trusts` accepts reference texts from clients.

    Raises EnvironmentFault if no judge gets ready, UsageError if the settings name a service.
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
    """Yield a service on the loopback, for the duration of the bench that owns the folder.

    A later service in the same folder knows the earlier verdicts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (
        judges(cluster, settings, folder, True, told) as found,
        beside(found.judging, found.about, folder, 2 * found.slots) as (url, token),
    ):
        yield Beside(url, token, found.slots)
