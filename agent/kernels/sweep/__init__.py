"""Timing of the kernels at shapes of models, beside torch and other libraries: `agent kernels bench --sweep`.

`grid` chooses the shapes, `peers` the functions to time beside a kernel, and `measuring` times one row.
`workers` and `sweeping` compile rows in parallel and time them one after the other. `rows` stores them, and
`page` and `plot` render them.
"""
