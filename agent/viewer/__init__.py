"""Web pages of the runs, from a local server while they are in progress, or of one run as a single file.

`pages` renders, `server` serves, `export` writes the file. All text from a model, a candidate or a file is
untrusted. The templates escape it, `text` makes its control characters visible, and long texts are cut. A
content-security policy keeps any of it from running. The viewer never writes to the store, judges nothing and
ranks nothing.
"""
