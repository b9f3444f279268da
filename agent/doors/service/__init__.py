"""The judge as a service over HTTP: a queue that outlives the process, and the workers that judge from it.

Contract: what was accepted is judged once, whatever happens to the process meanwhile, and every answer is
that of its own question. A job is named by its content. Candidates are isolated, or the service does not
start.
"""
