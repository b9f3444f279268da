"""Judges on the machines of a Ray cluster, for a service or a bench on this machine.

Only texts travel: jobs go out and answers come back, named by their content. No other data leaves this
machine, in particular no secret. If a judge is lost, another one takes its job. A judge's verdict on a
candidate is final; a failure to judge counts against the judge. There are never more jobs out than judges.
"""
