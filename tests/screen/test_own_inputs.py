import pytest
from screened import found, with_python


@pytest.mark.parametrize(
    "functions",
    [
        "",
        "batch_size = 16\ndim = 4096\ndef get_inputs():\n    return [torch.rand(batch_size, dim)]",
        "def get_inputs():\n    '''The same.'''\n    return [torch.rand(16, 4096, device='cuda')]",
        "B, D = 16, 2 * 2048\ndef get_inputs():\n    x = torch.rand(B, D).cuda()\n    return [x]",
        "def get_init_inputs():\n    return []",
    ],
)
def test_own_inputs_that_say_the_same_are_no_finding(functions: str) -> None:
    assert found(with_python(functions)) == ()


@pytest.mark.parametrize(
    ("functions", "name"),
    [
        ("def get_inputs():\n    return [torch.randn(16, 4096)]", "get_inputs"),
        ("batch_size = 2\ndef get_inputs():\n    return [torch.rand(batch_size, 4096)]", "get_inputs"),
        ("def get_init_inputs():\n    return [8]", "get_init_inputs"),
    ],
)
def test_own_inputs_that_differ_are_a_warning(functions: str, name: str) -> None:
    (finding,) = found(with_python(functions))
    assert (finding.kind, finding.severity) == ("own-inputs-differ", "warning")
    assert finding.message == (
        f"The answer's own {name} differs from the reference's; the judge always uses the reference's."
    )
    assert finding.location is not None
    assert finding.location.text == f"def {name}():"
