"""How long a verified candidate takes, by clocks that it cannot reach."""
