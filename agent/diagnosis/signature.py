"""A short name for a mistake that stays the same when it is made again.

It holds the kind and the words of a finding without what changes from attempt to attempt: numbers, lines,
places in memory, the family of inputs it was found on. Two findings with one signature are one mistake.
"""

import re

from agent.records import Finding, digest

_CHANGING = re.compile(r"0x[0-9a-fA-F]+|(?<![A-Za-z_])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_FAMILY = re.compile(r"^With [^:]{1,80}: ")


def of(finding: Finding) -> str:
    """Twelve hexadecimal digits."""
    words = _CHANGING.sub("#", _FAMILY.sub("", finding.message))
    return digest(finding.kind, " ".join(words.lower().split()))[:12]
