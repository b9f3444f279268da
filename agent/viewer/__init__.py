"""The runs as web pages: on a local server while they go on, or one of them as a single file.

`pages` renders, `server` serves, `export` writes the file. Everything that a model, a candidate or a file
brought is untrusted: escaped by the templates, its control characters shown and not obeyed (`text`), cut
where it is long, and behind a content-security policy under which nothing of it could run. Nothing is ever
written to the store, and nothing is judged or ranked here.
"""
