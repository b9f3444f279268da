"""Process of the reference: inputs, parameters, the float64 ground truth and its tolerance."""
