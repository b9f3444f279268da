"""The process of the reference: inputs, parameters, the float64 truth and what may differ from it."""
