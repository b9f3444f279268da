"""Who answers: an endpoint, a program, a folder, a stored run, or the catalogue. `choose` holds the rule."""

from agent.providers.choice import Told, choose, endpoint_settings, for_run
from agent.providers.several import Several

__all__ = ["Several", "Told", "choose", "endpoint_settings", "for_run"]
