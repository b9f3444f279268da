"""One trial of a candidate at given sizes, and the diagnosis of its failure."""
