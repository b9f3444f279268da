"""What a `load_inline` call asks to have built: its text, the compilers and their messages."""
