"""Runs code nobody vouches for in a child that can be spoken to, limited and killed as a whole."""

from agent.sandbox.channel import Child, ChildFault, Gone, OutputFlood, Overrun, TimedOut
from agent.sandbox.enter.system import SETUP_FAILED
from agent.sandbox.isolation import enclosed, hide, strongest, surroundings
from agent.sandbox.levels import Isolation, Level, Limits
from agent.sandbox.view import Box

__all__ = [
    "Box", "Child", "ChildFault", "Gone", "Isolation", "Level", "Limits", "OutputFlood", "Overrun",
    "SETUP_FAILED", "TimedOut", "enclosed", "hide", "strongest", "surroundings",
]  # fmt: skip
