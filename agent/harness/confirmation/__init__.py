"""What a new best goes through besides: a second build, the sanitizer, the emulator, counters."""
