"""Stored words of several compilers become the kind, the line and the mend; no path of a machine stays."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from diagnosis import compilers
from hypothesis import given
from hypothesis import strategies as st

from agent.build.build_request import BuildRequest
from agent.diagnosis.build import compiler_messages, errors, load_inline_log
from agent.records import Finding, Location

LOGS: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "logs.toml").read_text())["log"]
BEFORE = 7
"""Line of the candidate's file that the stored line of a log is."""


def request(text: str, file: str) -> BuildRequest:
    source = f"{text}\n// the end\n"
    cpp, cuda = (source, "") if file == "main.cpp" else ("// nothing declared\n", source)
    candidate = f"{'# a line of Python' + chr(10)}" * (BEFORE - 1) + f'SOURCE = r"""{source}"""\n'
    return BuildRequest(
        name="t", cpp_sources=(cpp,), cuda_sources=(cuda,), functions={}, candidate_source=candidate
    )


@pytest.mark.parametrize("entry", LOGS, ids=[f"{e['kind']}, {e['from'].split(',')[0]}" for e in LOGS])
def test_stored_words_get_their_cause(entry: dict[str, Any]) -> None:
    asked = request(entry["text"], entry["file"])
    found = errors.explained(load_inline_log.findings(entry["log"], asked), asked)
    assert [finding.kind for finding in found] == [entry["kind"]]
    headline = found[0]
    assert re.search(entry["says"], headline.message), headline.message
    assert "/tmp/" not in headline.message + (headline.evidence or "")
    assert "/home/" not in headline.message + (headline.evidence or "")
    if headline.location is not None:
        assert headline.location.line == BEFORE
        assert entry["text"] in (headline.location.text or "")


RECORDED = [
    pytest.param(compilers.faults(version.split()[0])[name], log, id=f"{version}, {name}")
    for version, logs in compilers.stored().items()
    for name, log in logs.items()
]


def test_several_versions_are_stored_and_each_has_every_fault() -> None:
    stored = compilers.stored()
    assert len([version for version in stored if version.startswith("g++")]) >= 2
    for version, logs in stored.items():
        assert set(logs) == set(compilers.faults(version.split()[0]))


@pytest.mark.parametrize(("fault", "log"), RECORDED)
def test_every_version_of_a_compiler_says_the_same_cause(fault: compilers.Fault, log: str) -> None:
    asked = request(fault.text, fault.file)
    headline = errors.explained(load_inline_log.findings(log, asked), asked)[0]
    assert headline.kind == fault.kind, headline
    assert fault.says in headline.message
    assert "/build" not in headline.message + (headline.evidence or "")
    # ptxas names no line.
    if fault.kind != "shared-memory-limit":
        assert headline.location is not None
        assert headline.location.line == BEFORE


def test_the_chain_of_instantiations_is_evidence() -> None:
    log = next(entry for entry in LOGS if "T=float" in entry["log"])
    asked = request(log["text"] + "\n" * 4, "cuda.cu")
    [found] = load_inline_log.findings(log["log"].replace("line 3", "line 6"), asked)
    assert found.evidence is not None
    assert f"asked for at line {BEFORE + 2}" in found.evidence


def error(kind: str, message: str, line: int | None = None, text: str = "") -> Finding:
    place = Location(line=line, text=text) if line else None
    return Finding(kind=kind, message=message, location=place)


def test_what_follows_from_the_root_is_its_evidence() -> None:
    found = errors.explained(
        [
            error(
                "compile-error", "'cub' does not name a type", 3, "using R = cub::BlockReduce<float, 256>;"
            ),
            error("compile-error", "'R' was not declared in this scope", 4, "R().Sum(x);"),
            error("compile-error", "return-statement with no value", 9, "}"),
        ],
        request("", "cuda.cu"),
    )
    assert [finding.kind for finding in found] == ["missing-include"]
    assert "return-statement" in (found[0].evidence or "")


def test_the_same_cause_twice_is_counted() -> None:
    twice = [error("compile-error", "'nn' was not declared in this scope", n, "nn;") for n in (3, 9)]
    [found] = errors.explained(twice, request("", "cuda.cu"))
    assert found.count == 2


def test_what_blames_the_emulator_stays_as_it_is() -> None:
    gap = error("header-gap", "The emulator's headers lack at::thing; a GPU build may accept this code.")
    assert errors.explained([gap], request("", "cuda.cu")) == (gap,)


@given(st.text(max_size=200), st.text(max_size=80))
def test_any_words_of_a_compiler_can_be_read(text: str, line: str) -> None:
    meant = compiler_messages.meaning(text, line)
    assert meant is None or (meant.kind and meant.message)


@given(st.lists(st.sampled_from([entry["log"] for entry in LOGS]), max_size=3), st.text(max_size=100))
def test_any_log_gives_at_least_one_finding(parts: list[str], more: str) -> None:
    asked = request("int x;", "cuda.cu")
    found = errors.explained(load_inline_log.findings("\n".join([*parts, more]), asked), asked)
    assert found
    assert all(finding.message.strip() for finding in found)
