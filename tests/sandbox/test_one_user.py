"""Root of a user namespace that maps one user: isolation is weaker there, not broken."""

import subprocess
import sys

import pytest

from agent import config

PROGRAM = "from agent import sandbox; level = sandbox.strongest(); print(level.name, level.user)"


def test_a_namespace_with_one_user_is_isolated_as_far_as_it_can_be() -> None:
    environment = config.child_environment()
    alone = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
        pytest.skip("user namespaces are not allowed here")
    environment["PYTHONPATH"] = config.with_package(environment)
    command = [*alone, sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    name, user = done.stdout.split()
    assert user != "own"
    assert name in ("namespaces", "bubblewrap", "process")
