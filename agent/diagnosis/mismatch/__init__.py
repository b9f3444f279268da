"""Why an output is wrong: where, and which wrong reference it equals."""
