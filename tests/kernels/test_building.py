"""Building a kernel's library: once for its content, behind a lock that cannot hang; faults say why."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from agent.build import nvcc
from agent.kernels import building, built, parallel, sources
from agent.kernels.built import BuildFault

needs_nvcc = pytest.mark.skipif(nvcc.find() is None, reason="there is no nvcc")
FAKE = """#!/bin/sh
case "$1" in --version) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit 0;; esac
echo "$@" >> {log}
{then}
"""
HOLDER = """
import sys, time
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""
MAKES = 'for w in "$@"; do [ "$last" = -o ] && echo made > "$w"; last=$w; done; echo "$report" >&2'


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "calls"


def compiler(folder: Path, then: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts an nvcc that only notes its calls in front of the others."""
    place = folder / "bin"
    place.mkdir()
    (place / "nvcc").write_text(FAKE.format(log=folder / "calls", then=then))
    (place / "nvcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")


def test_a_library_is_built_once_for_its_content(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, MAKES, monkeypatch)
    first = building.library("gelu", "90a")
    assert first.read_text() == "made\n"
    assert building.library("gelu", "90a") == first
    assert building.library("gelu", "80") != first
    kept = sources.device_code("gelu")
    monkeypatch.setattr(sources, "device_code", lambda name: {**kept, "gelu/csrc/launch.cuh": "// changed"})
    assert building.library("gelu", "90a") not in (first, None)
    monkeypatch.setattr(building, "torch_version", lambda: "another")
    building.library("gelu", "90a")
    assert len(log.read_text().splitlines()) == 4
    assert "-gencode=arch=compute_90a,code=sm_90a" in log.read_text()
    of_sm80 = [line for line in log.read_text().splitlines() if "compute_80" in line]
    assert ["-DKW_PORTABLE_ONLY" in line for line in log.read_text().splitlines()].count(True) == len(of_sm80)
    assert not list(first.parent.parent.glob(".*")), "what was built in is gone"


def test_a_failed_build_says_why_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, 'echo "launch.cuh(7): error: no such type" >&2; exit 2', monkeypatch)
    with pytest.raises(
        BuildFault, match=r"gelu: its build failed: launch.cuh\(7\): error: no such type; .*nvcc -O1"
    ):
        building.library("gelu", "90a")
    left = [path.name for path in (tmp_path / "cache" / "kernels").iterdir() if path.suffix != ".lock"]
    assert left == []


def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, MAKES, monkeypatch)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENT_CACHE_DIR", str(tmp_path / "file" / "below"))
    with pytest.raises(
        BuildFault, match="cannot write its build to .*: Not a directory; set AGENT_CACHE_DIR"
    ):
        building.library("gelu", "90a")


def test_an_nvcc_of_another_cuda_than_torchs_is_refused(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, MAKES, monkeypatch)
    with pytest.raises(BuildFault, match="nvcc is 13.0.88 and torch was built for CUDA 12.8: put an nvcc 12"):
        building.library("gelu", "90a", cuda="12.8")
    assert not log.exists()
    assert building.library("gelu", "90a", cuda="13.2").is_file()


def test_many_are_built_at_once_and_each_dtype_apart(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two compilers meet: each waits until the other has begun."""
    compiler(tmp_path, f"while [ $(wc -l < {log}) -lt 2 ]; do sleep 0.01; done; {MAKES}", monkeypatch)
    wanted = parallel.wanted(["gelu", "group_norm"], ["bfloat16", "float32"])
    assert wanted == (("gelu", "all"), ("group_norm", "float32"), ("group_norm", "bfloat16"))
    paths = list(parallel.libraries(wanted, "90a", jobs=2))
    assert sorted(built.report(path).part for path in paths) == ["all", "bfloat16", "float32"]
    calls = log.read_text().splitlines()
    assert len(calls) == 3
    assert "group_norm" in calls[0], "what takes longest is first"
    assert sorted(word for call in calls for word in call.split() if "KW_DTYPES" in word) == [
        "-DKW_DTYPES=1", "-DKW_DTYPES=4",
    ]  # fmt: skip
    assert [("--split-compile 4" in call) for call in calls] == [("group_norm" in call) for call in calls]
    assert parallel.wanted(["gelu"], ["float16"]) == (("gelu", "all"),)


def test_a_failure_among_many_is_told_and_what_was_built_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = f'case "$*" in *softmax*) echo "softmax.cuh(1): error: no" >&2; exit 2;; esac; {MAKES}'
    compiler(tmp_path, failing, monkeypatch)
    with pytest.raises(BuildFault, match=r"softmax: its build failed: softmax.cuh\(1\): error: no"):
        list(parallel.libraries(parallel.wanted(["softmax", "gelu"], ["float32"]), "90a", jobs=2))
    assert len(list((tmp_path / "cache" / "kernels").glob("gelu-all-90a-*/kernel.so"))) == 1


def test_a_damaged_library_is_built_again(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, MAKES, monkeypatch)
    path = building.library("gelu", "90a")
    path.write_text("half of")
    assert building.library("gelu", "90a").read_text() == "made\n"
    assert len(log.read_text().splitlines()) == 2


def test_a_shipped_library_is_loaded_where_it_fits_and_needs_no_compiler(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, MAKES, monkeypatch)
    folder = tmp_path / "built"
    kept = built.ship(building.library("group_norm", "90a", "float16"), folder)
    assert built.ship(building.library("group_norm", "90a", "float16"), folder) == kept, "an older one goes"
    assert [path.name for path in folder.iterdir()] == [kept.parent.name]
    monkeypatch.setenv("AGENT_KERNELS_BUILT", str(folder))
    monkeypatch.setattr(building, "_Tools", None)
    assert building.library("group_norm", "90a", "float16", cuda="13.2") == kept
    for others in (("90a", "float32"), ("80", "float16")):
        assert built.shipped(folder, "group_norm", *others, "13.2") is None
    assert built.shipped(folder, "group_norm", "90a", "float16", "12.8") is None
    with monkeypatch.context() as other:
        other.setattr(sources, "device_code", lambda name: {"group_norm/csrc/launch.cuh": "// changed"})
        assert built.shipped(folder, "group_norm", "90a", "float16", "13.2") is None
    kept.write_text("another")
    with pytest.raises(BuildFault, match=r"kernel.so is not the file that was built: ship group_norm there"):
        building.library("group_norm", "90a", "float16", cuda="13.2")
    (kept.parent / built.REPORT).write_text("{}")
    with pytest.raises(BuildFault, match=r"build.json cannot be read: ship group_norm there again"):
        building.library("group_norm", "90a", "float16", cuda="13.2")


def held(lock: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(lock)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def lock_of(tmp_path: Path) -> Path:
    (made,) = (path for path in (tmp_path / "cache" / "kernels").iterdir() if path.is_dir())
    for file in made.iterdir():
        file.unlink()
    made.rmdir()
    return made.with_suffix(".lock")


def test_a_lock_says_who_holds_it_and_that_of_the_dead_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, MAKES, monkeypatch)
    building.library("gelu", "90a")
    lock = lock_of(tmp_path)
    with held(lock) as holder:
        try:
            lock.with_suffix(".holder").write_text("process 4711 on node3")
            with pytest.raises(
                BuildFault, match="another process has been building it.*process 4711 on node3"
            ):
                building.library("gelu", "90a", lock_limit_s=0.2)
        finally:
            holder.send_signal(signal.SIGKILL)
    assert building.library("gelu", "90a", lock_limit_s=200).is_file()


def test_the_lock_is_free_after_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, "exit 2", monkeypatch)
    with pytest.raises(BuildFault, match="the compiler said nothing"):
        building.library("gelu", "90a")
    (lock,) = (tmp_path / "cache" / "kernels").glob("*.lock")
    with FileLock(lock, timeout=1):
        pass
    assert not lock.with_suffix(".holder").exists()


def test_a_build_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, "exec sleep 3600", monkeypatch)
    monkeypatch.setattr(building, "BUILD_LIMIT_S", 0.5)
    with pytest.raises(BuildFault, match="took longer than 0 s and was ended"):
        building.library("gelu", "90a")


@needs_nvcc
@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("gelu", (9, 0)), ("logsumexp", (9, 0)), ("linear_fp32x3", (9, 0)),
        *[(name, (8, 0)) for name in sources.FUSED],
    ],
)  # fmt: skip
def test_nvcc_compiles_it_without_spills(
    name: str, capability: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = building.library(name, building.architecture(capability))
    made = built.report(path)
    with capsys.disabled():
        most = max(kernel.registers or 0 for kernel in made.kernels)
        sys.stdout.write(
            f"\n{name} for sm_{made.arch}: {len(made.kernels)} kernels, at most {most} registers\n"
        )
    assert made.kernels
    assert [kernel.name for kernel in made.kernels if kernel.spill_bytes] == []
    assert made.warnings == ()
    listed = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True)
    others = {"linear_fp32x3": {"split"}}.get(name, set() if name in sources.FUSED else {"backward"})
    functions = {"forward", "error_text"} | others
    assert functions <= {line.split()[-1] for line in listed.stdout.splitlines()}


def test_every_struct_is_packed_as_it_is_declared() -> None:
    """The fields that Python packs are those of the struct, one 8-byte word each."""
    import re
    from importlib import import_module

    from agent.kernels import add_rows, rows

    shared = {
        "layer_norm": (rows, "Row"), "rms_norm": (rows, "Row"), "add_layer_norm": (add_rows, "AddRow"),
        "add_rms_norm": (add_rows, "AddRow"),
    }  # fmt: skip
    for name in sources.NAMES:
        code = "".join(sources.device_code(name).values())
        place, prefix = shared.get(name) or (import_module(f"agent.kernels.{name}.operator"), "")
        packed = {struct: getattr(place, struct.upper(), None) for struct in ("Forward", "Backward", "Split")}
        assert packed["Forward"]
        for struct, fields in packed.items():
            if fields is None:
                continue  # a backward that launches nothing of its own, say
            body = re.search(rf"struct {prefix}{struct} {{(.*?)\n}};", code, re.DOTALL)
            assert body, (name, struct)
            declared = ""
            for line in re.sub(r"//.*|/\*.*?\*/", "", body[1]).splitlines():
                count = line.count(",") + 1 if line.strip() else 0
                declared += ("d" if line.strip().startswith("double") else "q") * count
            spelled = re.sub(r"(\d+)(\w)", lambda found: int(found[1]) * found[2], fields)
            assert spelled == declared, (name, struct)
