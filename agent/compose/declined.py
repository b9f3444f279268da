"""Why nothing was composed."""


class Declined(Exception):
    """What the composer cannot do, in a clause that ends a sentence."""
