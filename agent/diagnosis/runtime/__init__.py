"""Why a candidate raised, hung or launched what no GPU takes."""
