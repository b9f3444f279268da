"""The reference in float64: what right answers may differ by, and the inputs that they are tried on."""
