"""Integer literals of candidates, in Python and in the CUDA inside its strings."""

import pytest

from agent.problems.literals import integers

CANDIDATE = '''"""Made for [112, 64, 512, 512]."""
import torch

batch_size = 112
features = 64
threads = 256
derived = batch_size * 5

CUDA = r"""
// 1000 in a comment
#define HW 262'144u
/* 1001
   1002 */ __global__ void k(float* x) { x[0x200] /= 513.0f; float y512 = 1.5f + 2e3f; }
TORCH_CHECK(n == 514, "expects 1003 // not a comment"); int z = 515;
"""
ESCAPED = "int a = 516; // 1004\\nint b = 517;"


class ModelNew(torch.nn.Module):
    """Wants 1005."""

    def __init__(self, groups=518):
        super().__init__()
        self.scale = 1.0 / 519.0
        self.threads = threads
        self.code = f"int q = {groups} + 520;"


def get_inputs():
    return [torch.rand(batch_size, features, 1006, derived)]


if __name__ == "__main__":
    print(1007)
'''


def test_literals_come_with_their_lines() -> None:
    assert sorted(value for value in integers(CANDIDATE) if value[0] > 1) == [
        (256, 6),
        (512, 13),
        (513, 13),
        (514, 14),
        (515, 14),
        (516, 16),
        (517, 16),
        (518, 22),
        (519, 24),
        (520, 26),
        (262144, 11),
    ]


def test_lines_count_from_an_escaped_line_break() -> None:
    assert list(integers('x = 3\ncode = """\\\nint a;\nint b = 77;\n"""\n')) == [(3, 1), (77, 4)]


def test_sizes_that_the_model_uses_count_although_get_inputs_uses_them_too() -> None:
    source = "n = 112\ndef get_inputs(): return [n]\ndef f(): return n\n"
    assert list(integers(source)) == [(112, 1)]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("512", [512]),
        ("512.f", [512]),
        ("512.5f", []),
        ("x512 512x _512", []),
        ("512ULL+512u", [512, 512]),
        ("a<512>(b)", [512]),
        ("0x1FFu", [511]),
        ("'a' 512", [512]),
        ("1e512", []),
        ("v.512", []),
        ("/* 512", []),
        ("128*512", [128, 512, 65536]),
        ("8 * 64 + 3", [8, 64, 512, 3]),
        ("4 * n * 64", [4, 64]),
        ("1 << 20; 7", [1, 20, 1048576, 7]),
        ("2u * 3 << 4", [2, 3, 4, 96]),
        ("1 << 1000000", [1, 1000000, 1 << 62]),
        ("8 / 4", [8, 4]),
    ],
)
def test_c_literals(text: str, values: list[int]) -> None:
    assert sorted(value for value, _ in integers(f'code = """{text}"""')) == sorted(values)


@pytest.mark.parametrize(
    ("text", "computed"),
    [
        ("64 * 64", [4096]), ("1 << 9", [512]), ("2 ** 10", [1024]), ("3 * 4 * 5", [12, 60]),
        ("8 * n", []), ("8 - 4", []), ("9 ** 9 ** 9", [9**9]),
    ],
)  # fmt: skip
def test_python_computes_with_literals(text: str, computed: list[int]) -> None:
    literals = {int(word) for word in text.split() if word.isdecimal()}
    assert sorted(value for value, _ in integers(f"x = {text}") if value not in literals) == computed


def test_what_does_not_parse_has_no_literals() -> None:
    assert list(integers("x = (512")) == []
