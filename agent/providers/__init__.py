"""Who answers: a live endpoint, a stored run, or the catalogue. `choose` holds the rule."""

from agent.providers.choice import choose, endpoint_settings

__all__ = ["choose", "endpoint_settings"]
