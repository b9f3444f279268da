"""The judge as a service over HTTP: a queue that outlives the process, and workers that judge from it.

An accepted job is judged once, even if the process ends meanwhile, and every answer names its own job. A job
is named by its content. The service does not start unless it can isolate candidates.
"""
