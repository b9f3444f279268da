"""`agent run` from a live endpoint through repair to a verified kernel, over a real HTTP server."""

import json
from pathlib import Path

import endpoint
import pytest
from e2e.commands import agent, answer, shown


def test_a_misbehaving_endpoint_leads_through_repair_to_a_verified_kernel(tmp_path: Path) -> None:
    script: list[endpoint.Behaviour] = [
        endpoint.status(429, retry_after="0"),
        endpoint.status(500),
        endpoint.stream(answer(1)),
        endpoint.stream(answer(2), drop_after=1),
        endpoint.raw(b"\x00\xff<html>garbage"),
        endpoint.stream(answer(2)),
        endpoint.stream("I would rather explain it in words."),
        endpoint.stream(answer(4), reasoning="```python\nclass ModelNew: pass\n```"),
    ]
    with endpoint.Endpoint(script) as server:
        done = agent(
            "run", "level1/group_norm", "--executor", "emulator", "--base-url", server.base_url,
            "--model", endpoint.MODEL, "--json", cwd=tmp_path, OPENAI_API_KEY="sk-a-very-secret-key",
        )  # fmt: skip
        asked = len(server.completions)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["outcome"] == "verified"
    assert result["best"]["evaluation"]["scope"]["shapes"] == "shrunken"
    assert asked == len(script)
    document = shown(result["run"], tmp_path)
    statuses = [[a["evaluation"]["status"] for a in entry["attempts"]] for entry in document["rounds"]]
    # What the first answer lacks is mended without asking; its mend is an attempt of its own.
    assert statuses == [["build_error", "incorrect"], ["incorrect"], [], ["verified"]]
    assert document["rounds"][2]["rejected"]["kind"] == "no-code"
    assert sum(len(entry["retries"]) for entry in document["rounds"]) == 4
    usage = document["rounds"][0]["completion"]["usage"]
    assert usage["output_tokens"] == endpoint.USAGE["completion_tokens"]
    assert document["rounds"][3]["completion"]["reasoning"]
    feedback = document["rounds"][1]["prompt"]["messages"][-1]["content"]
    assert "missing-declaration" in feedback or "cpp_sources does not declare" in feedback
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"sk-a-very-secret-key" not in everything + done.stderr.encode() + done.stdout.encode()
    check_best(Path(tmp_path / result["best_file"]))


def check_best(best: Path) -> None:
    """best.py is the verified source, says its scope, and needs only torch."""
    text = best.read_text()
    compile(text, str(best), "exec")
    assert "emulator" in text.split('"""')[1]
    assert "import agent" not in text


def test_a_wrong_key_is_exit_4_and_the_run_resumes(tmp_path: Path) -> None:
    with endpoint.Endpoint([endpoint.status(401, "Incorrect API key")]) as server:
        failed = agent(
            "run", "level1/group_norm", "--executor", "emulator", "--base-url", server.base_url,
            "--model", endpoint.MODEL, cwd=tmp_path, OPENAI_API_KEY="sk-wrong-key-wrong-key",
        )  # fmt: skip
    assert failed.returncode == 4
    assert "OPENAI_API_KEY" in failed.stderr.splitlines()[-1]
    (folder,) = (tmp_path / "runs").iterdir()
    with endpoint.Endpoint([endpoint.stream(answer(4))]) as server:
        resumed = agent(
            "run", "--resume", folder.name, "--base-url", server.base_url, cwd=tmp_path,
            OPENAI_API_KEY="sk-right-key-right-key",
        )  # fmt: skip
    assert resumed.returncode == 0, resumed.stderr
    assert shown(folder.name, tmp_path)["outcome"] == "verified"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("run",), 2, "PROBLEM or --resume"),
        (("run", "level1/matmul", "--provider", "catalogue"), 3, "set OPENAI_API_KEY"),
        (("run", "level1/softmax", "--provider", "oracle"), 2, "openai_compat, compose, catalogue,"),
        (("run", "level1/softmax", "--executor", "tpu"), 2, "emulator"),
        (("run", "level1/softmax", "--rounds", "0"), 2, "rounds"),
        (("run", "level1/softmax", "--base-url", "http://127.0.0.1:9"), 2, "--model"),
        (("run", "no/such/problem"), 2, "no/such/problem"),
        (("run", "level1/softmax", "--frobnicate"), 2, "--frobnicate"),
        (("run", "--resume", "nothing-like-it"), 2, "nothing-like-it"),
        (("eval", "level1/softmax", "missing.py"), 2, "missing.py"),
        (("eval", "level1/softmax", "recorded/group_norm:9"), 2, "no attempt 9"),
        (("replay", "nowhere"), 2, "nowhere"),
    ],
)
def test_bad_input_is_one_line_and_its_exit_code(
    arguments: tuple[str, ...], code: int, words: str, tmp_path: Path
) -> None:
    done = agent(*arguments, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("runs/*"))


def test_cuda_without_a_gpu_is_exit_3(tmp_path: Path) -> None:
    done = agent("run", "level1/softmax", "--executor", "cuda", cwd=tmp_path, PATH="/usr/bin:/bin")
    if done.returncode == 0:
        pytest.skip("this machine has a GPU and nvcc")
    assert done.returncode == 3
    assert "--executor emulator" in done.stderr


def test_a_dry_run_prints_the_prompt_and_asks_nobody(tmp_path: Path) -> None:
    wishes = tmp_path / "wishes.txt"
    wishes.write_text("runs on torch 2.0\nno atomics\n")
    with endpoint.Endpoint([]) as server:
        done = agent(
            "run", "level2/linear_group_norm_min_bias", "--dry-run", "--require", f"@{wishes}",
            "--base-url", server.base_url, "--model", "any", cwd=tmp_path,
        )  # fmt: skip
        assert not server.completions
    assert done.returncode == 0, done.stderr
    assert "(1, 8192, 1024, 1)" in done.stdout
    assert "no atomics" in done.stdout
    assert "the judge does not check it" in done.stdout
    assert "tokens" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_an_unwritable_runs_folder_is_exit_3_before_anything_is_asked(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    with endpoint.Endpoint([]) as server:
        done = agent(
            "run", "level1/softmax", "--executor", "emulator", "--base-url", server.base_url, "--model", "m",
            "--runs-dir", str(blocked / "runs"), cwd=tmp_path,
        )  # fmt: skip
        assert not server.completions
    assert done.returncode == 3, done.stderr
    assert "blocked" in done.stderr


def test_a_stored_run_answers_again_in_order(tmp_path: Path) -> None:
    """Findings name values drawn from secret seeds, so later prompts differ and need --in-order."""
    replay = (
        "run",
        "level1/group_norm",
        "--provider",
        "replay:recorded/group_norm",
        "--executor",
        "emulator",
    )
    missed = agent(*replay, cwd=tmp_path)
    assert missed.returncode == 4, missed.stderr
    assert "--in-order" in missed.stderr
    done = agent(*replay, "--in-order", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    # The first answer lacks a declaration; its mend is an attempt beside the three answers.
    assert result["best"]["number"] == 4
    assert result["best"]["candidate"]["origin"] == "replay"
