"""The kernels at the shapes that models have, beside torch's and the field's: `agent kernels bench --sweep`.

`grid` says which shapes, `peers` what they are timed beside, `measuring` how one is timed, `workers` and
`sweeping` how many are compiled at once and timed one after the other, `rows` what is kept of them, `page`
and `plot` what is drawn from that.
"""
