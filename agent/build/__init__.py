"""Build of a `load_inline` call: its text, the compilers and their messages."""
