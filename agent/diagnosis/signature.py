"""A short identifier of a mistake that stays the same when the mistake is repeated.

The identifier covers the kind and the words of a finding. It leaves out what changes between attempts:
numbers, lines, memory addresses and the input family. Two findings with the same signature are the same
mistake.
"""

import re

from agent.records import Finding, digest

_CHANGING = re.compile(r"0x[0-9a-fA-F]+|(?<![A-Za-z_])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_FAMILY = re.compile(r"^With [^:]{1,80}: ")


def compute_signature(finding: Finding) -> str:
    """Return the signature of a finding as twelve hexadecimal digits."""
    words = _CHANGING.sub("#", _FAMILY.sub("", finding.message))
    return digest(finding.kind, " ".join(words.lower().split()))[:12]
