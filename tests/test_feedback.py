from verdicts import refused, verified

from agent import feedback
from agent.errors import ReplyError
from agent.records import Finding, Location, Scope, Status


def test_an_answer_without_code_belongs_to_no_attempt() -> None:
    said = feedback.on_reply(ReplyError("cut-off", "The answer was cut off after 16 output tokens.\x1b[31m"))
    assert (said.attempt, said.kind) == (None, "cut-off")
    assert said.text == "The answer was cut off after 16 output tokens."


def test_the_headline_comes_first_with_its_place_and_evidence() -> None:
    headline = Finding(
        kind="missing-declaration",
        message="`norm_cuda` is bound and not declared in cpp_sources.",
        location=Location(line=40, text='    functions=["norm_cuda"],'),
        evidence="error: 'norm_cuda' was not declared in this scope",
    )
    other = Finding(kind="unused-parameter", message="`eps` is not read.", severity="warning", count=3)
    said = feedback.on_evaluation(refused(2, headline, other, status=Status.BUILD_ERROR))
    assert (said.attempt, said.kind) == (2, "missing-declaration")
    assert said.text.splitlines() == [
        "build_error, found at stage verify (CPU emulator, full shapes, isolation process, full protocol).",
        "",
        "1. [missing-declaration] `norm_cuda` is bound and not declared in cpp_sources.",
        '   line 40: functions=["norm_cuda"],',
        "   | error: 'norm_cuda' was not declared in this scope",
        "",
        "2. [warning, unused-parameter, 3 times] `eps` is not read.",
    ]


def test_a_place_in_a_launch_is_named() -> None:
    location = Location(kernel="norm", block=(1, 0, 0), thread=(231, 0, 0))
    said = feedback.on_evaluation(refused(1, Finding(kind="illegal-address", message="m", location=location)))
    assert "   in kernel norm, block (1, 0, 0), thread (231, 0, 0)" in said.text.splitlines()


def test_more_findings_than_fit_are_counted_and_named() -> None:
    findings = [Finding(kind=f"kind-{n}", message=f"message {n}") for n in range(feedback.FINDINGS + 3)]
    text = feedback.on_evaluation(refused(1, *findings)).text
    assert f"message {feedback.FINDINGS - 1}" in text
    assert f"message {feedback.FINDINGS}" not in text
    assert text.endswith("And 3 more: kind-5, kind-6, kind-7.")


def test_long_evidence_is_cut_by_lines_and_by_width_and_says_so() -> None:
    lines = ["x" * (feedback.LINE_CHARACTERS + 9)] + [f"note {n}" for n in range(feedback.EVIDENCE_LINES + 6)]
    finding = Finding(kind="compile-error", message="m", evidence="\n".join(lines) + "\n")
    shown = feedback.on_evaluation(refused(1, finding)).text.splitlines()
    assert shown[3].endswith("xxx ... (9 more characters)")
    assert shown[-1] == "   | ... (7 more lines)"
    assert len(shown) == 3 + feedback.EVIDENCE_LINES + 1


def test_terminal_and_control_characters_do_not_get_through() -> None:
    dirty = "red \x1b[1;31mtext\x1b[0m\x07 \x1b]0;title\x07bell\u202egnp\x00\ttab\udc80"
    finding = Finding(kind="k", message=dirty, evidence=dirty, location=Location(line=1, text=dirty))
    text = feedback.on_evaluation(refused(1, finding)).text
    assert "red text bellgnp    tab" in text
    assert text.encode().decode().replace("\n", "").isprintable()


def test_verified_on_the_emulator_claims_no_time() -> None:
    said = feedback.on_evaluation(verified(4, executor="emulator", shapes="shrunken"))
    assert said.kind == "verified"
    assert said.text.splitlines() == [
        "verified (CPU emulator, shrunken shapes (batch_size 112->16), isolation process, full protocol).",
        "Error: 4.3% of what is allowed, worst of 3 draws.",
        "No time was measured.",
        "Kernel group_norm_kernel: 32 registers, 0 bytes spilled.",
    ]


def test_the_scope_says_which_remainder_smaller_sizes_keep() -> None:
    scope = Scope(executor="emulator", shapes="shrunken", sizes={"width": (510, 62)}, modulus=32)
    assert "shrunken shapes (width 510->62; remainders modulo 32)" in str(scope)
    fewer = scope.model_copy(update={"protocol": "reduced", "modulus": 4})
    assert str(fewer).endswith("modulo 4), isolation process, reduced protocol")


def test_a_measured_attempt_shows_every_number_it_has() -> None:
    warning = Finding(kind="own-inputs-differ", message="They differ.", severity="warning")
    text = feedback.on_evaluation(verified(4, 4.0, warnings=(warning,))).text
    assert "Time on NVIDIA H200: 4 ms (p20 3.6, p80 4.8)." in text
    assert "eager: 9.09 ms, 2.27 times this time." in text
    assert "torch.compile: 5.37 ms, 1.34 times this time." in text
    assert "Roofline: 50% of what memory or arithmetic allow." in text
    assert text.endswith("1. [warning, own-inputs-differ] They differ.")
