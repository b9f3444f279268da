"""The judge as a service over HTTP: a queue that outlives the process, and workers that judge from it.

An accepted job is judged once, whatever happens to the process meanwhile, and every answer belongs to its own
question. A job is named by its content. The service does not start unless it can isolate candidates.
"""
