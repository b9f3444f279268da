"""Runs first calls of candidates as the worker does, each in a fork of one process that has torch already.

A JSON line on standard input names a workspace, the settings of its worker and the commands; requests to
build go to standard output and are answered on standard input. The answer to the last command ends a job.
"""

import importlib
import json
import os
import sys
import traceback

import torch


def main() -> None:
    torch.set_num_threads(1)
    jobs = os.fdopen(0, "rb", buffering=0)
    while line := jobs.readline():
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            answer = {"error": "no command"}
            try:
                os.chdir(job["folder"])
                sys.path.insert(0, job["folder"])
                worker = importlib.import_module("worker").Worker("emulator", job["settings"], jobs, 1)
                for command in job["commands"]:
                    answer = worker.answer(json.dumps(command))
            except BaseException:  # noqa: BLE001 - the test shows whatever went wrong
                answer = {"error": traceback.format_exc()}
            os.write(1, json.dumps(answer).encode() + b"\n")
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
