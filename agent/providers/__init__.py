"""Providers of answers: endpoint, program, folder, file, stored run, catalogue or composer. See `choose`."""

from agent.providers.choice import Told, choose, endpoint_settings, for_run
from agent.providers.several import Several

__all__ = ["Several", "Told", "choose", "endpoint_settings", "for_run"]
