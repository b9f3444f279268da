"""One trial of a candidate at given sizes, and what is found out when it fails."""
