"""Text that asks the preprocessor for the emulator is refused; names that only look like its own are not."""

import pytest
from build_requests import DECLARED, TWICE, candidate, request

from agent.emulator.frontend import own_names


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("#ifdef KW_SHARED\n#endif", "`KW_SHARED`"),
        ("#if defined(KW_LINE) && 1\n#endif", "`KW_LINE`"),
        ("#  ifn\\\ndef KW_EXPORT\n#endif", "`KW_EXPORT`"),
        ("#ifndef KW_SHARED\n#define KW_SHARED 3\n#endif", "`KW_SHARED`"),
        ("#define ASKED defined(KW_SHARED)\n#if ASKED\n#endif", "`KW_SHARED`"),
        ("#if 0\n#define KW_SHARED 1\n#endif\n#ifdef KW_SHARED\n#endif", "`KW_SHARED`"),
        ("#if __has_include(<kw/device.h>)\n#endif", "a header `kw/...`"),
        ('%: include "kw/host.h"', "a header `kw/...`"),
    ],
)
def test_a_question_for_the_emulator_is_refused(asked: str, named: str) -> None:
    for made in (request(DECLARED, asked + "\n" + TWICE), request(asked + "\n" + DECLARED, TWICE)):
        found = own_names.findings(made)
        assert found[0].kind == "emulator-tampered"
        assert named in found[0].message


@pytest.mark.parametrize(
    "text",
    [
        "#define KW_SHARED 3\n#if KW_SHARED > 2\n#endif",
        "#ifndef KW\n#define KW 5\n#endif\n#if KW_SIZE_OF_MINE\n#endif",
        "constexpr int KW_KERNEL = 5;",
        "// #ifdef KW_SHARED",
        'const char* words = "#ifdef KW_SHARED <kw/device.h>";',
        "#ifdef __CUDACC__\n#include <cuda_fp16.h>\n#endif",
    ],
)
def test_names_that_only_look_like_its_own_are_anybodys(text: str) -> None:
    assert own_names.findings(request(DECLARED, text + "\n" + TWICE)) == ()


def test_the_finding_is_at_its_line() -> None:
    made = request(DECLARED, TWICE + "#ifdef KW_SHARED\n#endif\n")
    [found] = own_names.findings(made)
    assert found.location is not None
    assert found.location.line is not None
    lines = candidate(DECLARED, TWICE + "#ifdef KW_SHARED\n#endif\n").splitlines()
    assert "KW_SHARED" in lines[found.location.line - 1]
