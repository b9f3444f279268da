"""Health check of a GPU, made in a fresh process that had no part in the trial."""

import sys
from collections.abc import Mapping

from agent.errors import PassingFault
from agent.harness.task.job import Job
from agent.sandbox import Child, ChildFault

LIMIT_S = 120.0
SUM = """import json, os, sys, torch
sys.stdin.readline()
os.write(int(sys.argv[-1]), json.dumps({"sum": int(torch.ones(8, device="cuda").sum())}).encode() + b"\\n")
"""
"""Program that sums eight ones on the GPU and writes the result."""


def require(job: Job, environment: Mapping[str, str]) -> None:
    """Raise PassingFault if a new process cannot compute on the GPU."""
    server = job.servers.for_trusted()
    with Child([sys.executable, "-c", SUM], env=environment, server=server) as child:
        try:
            answer = child.ask({}, LIMIT_S)
        except ChildFault as fault:
            raise PassingFault(f"the GPU no longer works: a new process {fault}", child.log) from None
    if answer.get("sum") != 8:
        raise PassingFault("the GPU no longer works: its sums are wrong")
