"""Further checks of a new best: a second build, the sanitizer, the emulator and hardware counters."""
