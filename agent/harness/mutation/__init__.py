"""Wrong answers of our own making, to see whether a problem can tell them from right ones."""
