"""Tests of the origin of each setting, and of the limits of project files."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent import config
from agent.cli.app import app
from agent.errors import UsageError

KEY = "sk-0123456789abcdefWXYZ"


def user_file(text: str) -> Path:
    path = Path.home() / "config" / config.APPLICATION / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_nothing_given_is_the_defaults() -> None:
    resolved = config.load({})
    assert resolved.settings.model_dump(
        include={"rounds", "patience", "executor", "candidate_timeout", "gpu"}
    ) == {
        "rounds": 6,
        "patience": 2,
        "executor": "auto",
        "candidate_timeout": 120,
        "gpu": None,
    }
    assert {resolved.origin(name) for name in config.Settings.model_fields} == {"default"}
    assert resolved.settings.cache_dir == Path.home() / "cache" / "kernelwright"


def test_the_stronger_layer_wins_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    user = user_file("rounds = 1\n")
    seen = [(config.load({}).settings.rounds, config.load({}).origin("rounds"))]
    for file, text in (("pyproject.toml", "[tool.agent]\nrounds = 2\n"), ("agent.toml", "rounds = 3\n")):
        Path(file).write_text(text)
        seen.append((config.load({}).settings.rounds, config.load({}).origin("rounds")))
    monkeypatch.setenv("AGENT_ROUNDS", "4")
    seen.append((config.load({}).settings.rounds, config.load({}).origin("rounds")))
    resolved = config.load({"rounds": 5, "patience": None, "model": ""})
    seen.append((resolved.settings.rounds, resolved.origin("rounds")))
    assert seen == [
        (1, str(user)), (2, "pyproject.toml"), (3, "agent.toml"), (4, "AGENT_ROUNDS"), (5, "--rounds"),
    ]  # fmt: skip
    assert resolved.origin("patience") == resolved.origin("model") == "default"


def test_shared_variables_and_our_own_names_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("KERNELBENCH_ROOT", "~/bench")
    resolved = config.load({})
    assert resolved.settings.api_key is not None
    assert resolved.settings.api_key.get_secret_value() == KEY
    assert resolved.settings.kernelbench_root == Path.home() / "bench"
    assert resolved.origin("base_url") == "OPENAI_BASE_URL"
    monkeypatch.setenv("AGENT_BASE_URL", "http://127.0.0.1:2/v1")
    assert config.load({}).settings.base_url == "http://127.0.0.1:2/v1"
    assert config.load({}).origin("base_url") == "AGENT_BASE_URL"
    assert KEY not in repr(resolved.settings)


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "AGENT_ROUNDS", "AGENT_MODEL"):
        monkeypatch.setenv(name, "")
    resolved = config.load({})
    assert {resolved.origin(name) for name in config.Settings.model_fields} == {"default"}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"rounds": 0}, "--rounds: .*greater than or equal to 1"),
        ({"provider": "chatgpt"}, "--provider: .*openai_compat, compose, catalogue, replay:RUN.*chatgpt"),
        ({"provider": "replay:"}, "--provider"),
        ({"provider": "command: "}, "--provider"),
        ({"provider": "mailbox:"}, "--provider"),
        ({"executor": "gpu"}, "--executor: .*'auto', 'cuda' or 'emulator'"),
        ({"candidate_timeout": -1}, "--candidate-timeout"),
        ({"api": "assistants"}, "--api: .*'chat' or 'responses'"),
        ({"extra_body": "{"}, "--extra-body: Expecting"),
        ({"extra_body": "[1]"}, "--extra-body: .*dictionary"),
        ({"extra_body": '{"messages": []}'}, "--extra-body: 'messages' has a place of its own"),
        ({"stop": "[1, 2]"}, "--stop: .*string"),
    ],
)
def test_a_flag_out_of_range_names_the_valid_values(flags: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        config.load(flags)


def test_parameters_of_a_request_read_the_same_from_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    table = '{top_k = 5, user = {id = "x"}}'
    Path("agent.toml").write_text(f'stop = ["a", "b"]\nextra_body = {table}\nseed = 3\n')
    filed = config.load({}).settings
    assert (filed.stop, filed.extra_body) == (("a", "b"), {"top_k": 5, "user": {"id": "x"}})
    monkeypatch.setenv("AGENT_STOP", '["c", "d"]')
    monkeypatch.setenv("AGENT_EXTRA_BODY", '{"top_k": 6}')
    named = config.load({"stop": "</file>"}).settings
    assert (config.load({}).settings.stop, named.stop) == (("c", "d"), ("</file>",))
    assert (named.extra_body, named.seed) == ({"top_k": 6}, 3)


def test_a_variable_out_of_range_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_ROUNDS", "many")
    with pytest.raises(UsageError, match="^AGENT_ROUNDS: .*integer.*many"):
        config.load({})


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("agent.toml", "roundz = 3", "agent.toml: unknown setting 'roundz'; did you mean 'rounds'"),
        ("agent.toml", "zzz = 3", "agent.toml: unknown setting 'zzz'; known settings: provider, model"),
        ("agent.toml", "rounds = 'x'", "agent.toml: rounds: .*integer"),
        ("agent.toml", "rounds = [", "agent.toml is not valid TOML"),
        ("agent.toml", "\xff", "agent.toml is not valid TOML"),
        ("pyproject.toml", "tool = 3", "pyproject.toml: tool is not a table"),
        ("pyproject.toml", "[tool]\nagent = 3", "pyproject.toml: agent is not a table"),
        (
            "pyproject.toml",
            "[tool.agent]\nOPENAI_API_KEY = 'x'",
            "pyproject.toml: unknown setting 'OPENAI_API_KEY'",
        ),
    ],
)
def test_a_file_that_is_wrong_is_named_with_its_key(file: str, text: str, said: str) -> None:
    Path(file).write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=said):
        config.load({})


def test_a_project_file_may_not_name_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("agent.toml").write_text("provider = \"command:sh -c 'rm -r .'\"")
    with pytest.raises(UsageError, match=r"agent\.toml: a project file may not name a program to run"):
        config.load({})
    assert config.load({}, offline=True).command is not None
    monkeypatch.setenv("AGENT_PROVIDER", "command:cat")
    assert config.load({}).settings.provider == "command:cat"
    Path("agent.toml").write_text("provider = 'mailbox:box'")
    assert config.load({}).command is None


def test_another_tools_table_is_none_of_ours() -> None:
    Path("pyproject.toml").write_text("[tool.other]\nrounds = 3\n")
    assert config.load({}).origin("rounds") == "default"


def test_a_project_cannot_redirect_the_users_key(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("agent.toml").write_text("base_url = 'http://127.0.0.1:9/v1'\n")
    assert config.load({}).settings.base_url == "http://127.0.0.1:9/v1"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(UsageError, match=r"agent\.toml: .*OPENAI_API_KEY.*--base-url.*OPENAI_BASE_URL"):
        config.load({})
    assert config.load({}, offline=True).redirect is not None
    assert config.load({"base_url": "http://127.0.0.1:9/v1"}).origin("base_url") == "--base-url"
    monkeypatch.delenv("OPENAI_API_KEY")
    user_file(f"api_key = '{KEY}'\n")
    with pytest.raises(UsageError, match=r"config\.toml"):
        config.load({})
    Path("agent.toml").write_text(f"base_url = 'http://127.0.0.1:9/v1'\napi_key = '{KEY}'\n")
    assert config.load({}).origin("api_key") == "agent.toml"


def test_the_users_own_file_may_say_where_its_key_goes() -> None:
    user_file(f"api_key = '{KEY}'\nbase_url = 'http://127.0.0.1:9/v1'\n")
    assert config.load({}).settings.base_url == "http://127.0.0.1:9/v1"


def test_a_bad_key_is_never_printed() -> None:
    Path("agent.toml").write_text("api_key = 42\n")
    with pytest.raises(UsageError) as error:
        config.load({})
    assert "42" not in str(error.value)


def test_children_see_tools_and_gpus_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = {
        "CUDA_HOME": "/cuda",
        "TORCH_CUDA_ARCH_LIST": "9.0",
        "NVIDIA_VISIBLE_DEVICES": "0",
        "LC_ALL": "C",
    }
    secret = {
        "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "u", "AGENT_MODEL": "m", "HF_TOKEN": KEY,
        "TORCH_HUB_TOKEN": KEY, "NVIDIA_API_KEY": KEY,
        "AWS_SECRET_ACCESS_KEY": KEY, "SSH_AUTH_SOCK": "s", "LD_PRELOAD": "p",
    }  # fmt: skip
    for name, value in (allowed | secret).items():
        monkeypatch.setenv(name, value)
    seen = config.child_environment()
    assert allowed.items() <= seen.items()
    assert "PATH" in seen
    assert not secret.keys() & seen.keys()
    assert KEY not in seen.values()


def test_the_command_masks_keys_and_gives_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:hunter2@127.0.0.1:1/v1")
    result = CliRunner().invoke(app, ["config"])
    assert result.exit_code == 0
    assert "...WXYZ" in result.stdout
    assert "OPENAI_API_KEY" in result.stdout
    document = json.loads(CliRunner().invoke(app, ["config", "--json"]).stdout)
    assert document["settings"]["base_url"] == {
        "value": "http://...@127.0.0.1:1/v1", "origin": "OPENAI_BASE_URL"
    }  # fmt: skip
    assert document["settings"]["rounds"] == {"value": 6, "origin": "default"}
    assert KEY not in json.dumps(document) + result.output
    assert "hunter2" not in json.dumps(document) + result.output


def test_the_command_warns_of_a_redirected_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    Path("agent.toml").write_text("base_url = 'http://127.0.0.1:9/v1'\n")
    result = CliRunner().invoke(app, ["config"])
    assert result.exit_code == 0
    assert "a project file may not send the key" in result.stderr


def test_cache_counts_its_parts_and_deletes_nothing_else() -> None:
    folder = Path.home() / "cache" / "kernelwright"
    (folder / "emulator" / "deep").mkdir(parents=True)
    (folder / "emulator" / "deep" / "header.gch").write_bytes(b"x" * 2_500_000)
    (folder / "mine.txt").write_text("keep")
    document = json.loads(CliRunner().invoke(app, ["cache", "--json"]).stdout)
    assert {part["name"]: part["bytes"] for part in document["parts"]}["emulator"] == 2_500_000
    result = CliRunner().invoke(app, ["cache", "--clear"])
    assert result.exit_code == 0
    assert "2.5 MB" in result.stdout
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_a_project_cannot_say_what_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "precious" / "emulator").mkdir(parents=True)
    Path("agent.toml").write_text(f"cache_dir = '{tmp_path / 'precious'}'\n")
    result = CliRunner().invoke(app, ["cache", "--clear"])
    assert result.exit_code == 2
    assert "AGENT_CACHE_DIR" in result.stderr
    assert (tmp_path / "precious" / "emulator").is_dir()
