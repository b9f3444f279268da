"""Judges on the machines of a Ray cluster, for a service or a bench on this one.

Contract: jobs go out and answers come back as texts, named by their content; nothing else of this machine
does, no secret among it. A job whose judge is lost is judged by another one. What a judge says of a candidate
is final; what keeps it from judging counts against the judge. No more jobs are out than there are judges.
"""
