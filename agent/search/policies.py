"""Policies by name."""

from collections.abc import Mapping
from types import MappingProxyType

from agent.records import PolicyName
from agent.search.beam import beam
from agent.search.evolve import evolve
from agent.search.line import line
from agent.search.shape import Policy

POLICIES: Mapping[PolicyName, Policy] = MappingProxyType({"line": line, "beam": beam, "evolve": evolve})
