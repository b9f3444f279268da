"""Why a candidate is wrong, found where the evidence is."""
