"""What the screen refuses in Python and, at equal length, what it must let pass."""

import pytest
from screened import found, with_python

REFUSED = [
    ("exec('x = 1')", "dynamic-code"),
    ("y = eval('1 + 1')", "dynamic-code"),
    ("code = compile('1', 'f', 'eval')", "dynamic-code"),
    ("run = exec", "dynamic-code"),
    ("import importlib", "dynamic-code"),
    ("m = __import__('subprocess')", "dynamic-code"),
    ("e = __builtins__['eval']", "dynamic-code"),
    ("name = input_name()\nf = getattr(torch, name)", "dynamic-code"),
    ("import pickle", "dynamic-code"),
    ("from os import *", "dynamic-code"),
    ("globals()['__name__'] = '__main__'", "dynamic-code"),
    ("__name__ = '__main__'", "patches-module"),
    ("import ctypes", "forbidden-import"),
    ("from ctypes import CDLL", "forbidden-import"),
    ("import cffi", "forbidden-import"),
    ("import subprocess as sp", "forbidden-import"),
    ("def forward(x):\n    import socket", "forbidden-import"),
    ("import multiprocessing.shared_memory", "forbidden-import"),
    ("import threading", "forbidden-import"),
    ("from concurrent.futures import ThreadPoolExecutor", "forbidden-import"),
    ("import torch.multiprocessing as mp", "forbidden-import"),
    ("import einops", "extra-dependency"),
    ("from agent import kernels", "extra-dependency"),
    ("from .kernels import copy", "file-access"),
    ("os.system('true')", "process-control"),
    ("from os import system", "process-control"),
    ("os._exit(0)", "process-control"),
    ("torch.softmax = None", "patches-module"),
    ("torch.nn.functional.softmax = lambda x: x", "patches-module"),
    ("F.softmax: object = None", "patches-module"),
    ("nn.Module.__call__ = lambda self, x: x", "patches-module"),
    ("t = torch\nt.allclose = lambda *a, **k: True", "patches-module"),
    ("torch.cuda.Event.elapsed_time += 1", "patches-module"),
    ("del torch.allclose", "patches-module"),
    ("setattr(torch, 'allclose', None)", "patches-module"),
    ("setattr(torch, 'all' + 'close', None)", "patches-module"),
    ("delattr(torch.cuda, 'synchronize')", "patches-module"),
    ("object.__setattr__(torch, 'allclose', None)", "patches-module"),
    ("torch.__dict__['allclose'] = None", "patches-module"),
    ("vars(torch).update(allclose=None)", "patches-module"),
    ("for torch.allclose in [None]:\n    pass", "patches-module"),
    ("def patch():\n    sys.modules['torch'] = None", "patches-module"),
    ("from sys import modules", "patches-module"),
    ("import builtins", "patches-module"),
    ("sys.stdout = None", "patches-module"),
    ("from torch.overrides import TorchFunctionMode", "patches-module"),
    ("from unittest import mock", "patches-module"),
    ("import gc", "introspection"),
    ("import inspect", "introspection"),
    ("frame = sys._getframe(1)", "introspection"),
    ("def peek(frame):\n    return frame.f_back.f_locals", "introspection"),
    ("frame = getattr(sys, '_get' + 'frame')()", "introspection"),
    ("PREFIX = '_get'\nframe = getattr(sys, PREFIX + 'frame')()", "introspection"),
    ("g = F.softmax.__globals__", "introspection"),
    ("g = getattr(F.softmax, '__globals__')", "introspection"),
    ("def peek(f):\n    return getattr(f, '__glo' + 'bals__')", "introspection"),
    ("import operator\ng = operator.attrgetter('forward.__globals__')", "introspection"),
    ("f = torch.inspect.currentframe()", "introspection"),
    ("m = torch.sys.modules", "patches-module"),
    ("with torch._C._DisableTorchDispatch():\n    pass", "patches-module"),
    ("import traceback\ns = traceback.extract_stack()", "introspection"),
    ("m = torch.utils.cpp_extension.sys.modules['torch']", "patches-module"),
    ("torch.builtins.exec('x = 1')", "dynamic-code"),
    ("torch.os.system('true')", "process-control"),
    ("t = torch.threading.Thread()", "forbidden-import"),
    ("@torch.compile\ndef f(x):\n    return x", "other-compiler"),
    ("f = torch.compile(F.softmax)", "other-compiler"),
    ("from torch import compile as c", "other-compiler"),
    ("f = getattr(torch, 'compile')", "other-compiler"),
    ("@torch.jit.script\ndef f(x):\n    return x", "other-compiler"),
    ("import torch._dynamo", "other-compiler"),
    ("import triton.language as tl", "other-compiler"),
    ("try:\n    import triton\nexcept ImportError:\n    triton = None", "other-compiler"),
    ("text = open('/proc/self/status').read()", "file-access"),
    ("fd = os.open('x', 0)", "file-access"),
    ("from pathlib import Path\nt = Path('x').read_text()", "file-access"),
    ("torch.save({}, 'x')", "file-access"),
    ("from torch.utils.cpp_extension import load", "file-access"),
    ("torch.backends.cuda.matmul.allow_tf32 = True", "global-setting"),
    ("from torch.backends import cudnn\ncudnn.benchmark = True", "global-setting"),
    ("setattr(torch.backends.cudnn, 'allow_tf32', True)", "global-setting"),
    ("torch.set_float32_matmul_precision('high')", "global-setting"),
    ("os.environ['TORCH_EXTENSIONS_DIR'] = '/tmp/x'", "environment-write"),
    ("os.environ.setdefault('CC', 'gcc')", "environment-write"),
    ("os.environ.update({'MAX_JOBS': '2', 'LD_PRELOAD': 'x.so'})", "environment-write"),
    ("for key in ['A']:\n    os.environ[key] = '1'", "environment-write"),
]

ACCEPTED = [
    "# exec(eval(compile(open('x')))) and import ctypes, threading, gc; torch.compile is not used",
    '"""Uses neither torch.compile nor sys.modules; no eval(), no open(), no subprocess."""',
    "def f(x):\n    '''try: eval; except: pass'''\n    return x",
    "raise_text = 'sys.modules and os.system() and dlopen() stay untouched'",
    "if not torch.cuda.is_available():\n    message = 'cannot open the device: exec failed'",
    "model = nn.Linear(2, 2).eval()",
    "import re\nPATTERN = re.compile('a+')",
    "class Cache:\n    def compile(self):\n        return self.open()\n    def open(self):\n        return 1",
    "def compile(source):\n    return source\nresult = compile('x')",
    "def run(eval):\n    return eval + 1",
    "compile = load_inline\n",
    "os.environ['TORCH_CUDA_ARCH_LIST'] = '9.0'",
    "os.environ.setdefault('TORCH_CUDA_ARCH_LIST', '9.0')",
    "ARCH = 'TORCH_CUDA_ARCH_LIST'\nos.environ[ARCH] = '8.0;9.0'",
    "from os import environ\nenviron['MAX_JOBS'] = '4'",
    "os.environ.update(MAX_JOBS='4')",
    "home = os.environ.get('CUDA_HOME', '/usr/local/cuda')",
    "tf32 = torch.backends.cuda.matmul.allow_tf32",
    "assert not torch.jit.is_scripting()",
    "@torch.jit.ignore\ndef f(x):\n    return x",
    "class Op(torch.autograd.Function):\n    def forward(ctx, x):\n        ctx.shape = x.shape\n",
    "class Holder:\n    pass\nholder = Holder()\nholder.torch = torch\nsetattr(holder, 'name', 1)",
    "def fill(F):\n    F.name = 1\n    F['key'] = 2",
    "def scratch(n):\n    part = torch.empty(n)\n    part[0] = 1\n    part.name = 'scratch'",
    "def pick(obj, key):\n    return getattr(obj, key)",
    "softmax = getattr(F, 'softmax')",
    "from typing import Optional, Tuple\nfrom dataclasses import dataclass\nimport functools, hashlib, time",
    "torch.manual_seed(0)",
    "from math import *",
    "if 'extra' not in globals():\n    globals()['extra'] = 1",
    "with torch.no_grad():\n    zero = torch.zeros(1)",
    "if __name__ == '__main__':\n    import subprocess, gc\n    f = torch.compile(open('x').read())",
    "if '__main__' == __name__:\n    torch.backends.cudnn.benchmark = True",
    "import numpy as np",
    "w = torch.signal.windows.hann(8)\ns = torch.random.initial_seed()\ny = torch.ops.own.signal",
    "import traceback\ndef said():\n    return traceback.format_exc()",
    "import operator\nname = operator.attrgetter('__name__')(nn.Module)",
]


@pytest.mark.parametrize(("statements", "kind"), REFUSED)
def test_what_a_candidate_may_not_do_in_python(statements: str, kind: str) -> None:
    source = with_python(statements)
    errors = [finding for finding in found(source) if finding.severity == "error"]
    assert {finding.kind for finding in errors} == {kind}
    for finding in errors:
        assert finding.location is not None
        assert finding.location.line is not None
        assert source.split("\n")[finding.location.line - 1].strip() == finding.location.text
        assert (finding.location.text or "") in statements


@pytest.mark.parametrize("statements", ACCEPTED)
def test_what_a_candidate_may_do_in_python(statements: str) -> None:
    assert [finding for finding in found(with_python(statements)) if finding.severity == "error"] == []


def test_numpy_is_worth_a_warning() -> None:
    (finding,) = found(with_python("import numpy as np"))
    assert (finding.kind, finding.severity) == ("extra-dependency", "warning")


def test_broken_python_is_the_only_finding() -> None:
    (finding,) = found("import torch\nclass ModelNew(:\n    pass\n")
    assert finding.kind == "syntax-error"
    assert finding.location is not None
    assert (finding.location.line, finding.location.text) == (2, "class ModelNew(:")


@pytest.mark.parametrize(
    "source", ["x = '\0'\n", "x = " + "(" * 5000, "x = " + "-" * 20000 + "1", "x = 1" + "+1" * 3000]
)
def test_absurd_sources_are_findings_and_no_crash(source: str) -> None:
    (finding, *_) = found(source)
    assert finding.kind in {"syntax-error", "no-model-new"}


def test_a_file_without_the_class_is_refused() -> None:
    source = with_python("").replace("class ModelNew", "class Model")
    assert [finding.kind for finding in found(source)] == ["no-model-new"]


@pytest.mark.parametrize(
    "ending",
    [
        "try:\n    import missing_nothing_torch\nexcept ImportError:\n    pass\n",
        "Fused = object\nif True:\n    ModelNew = Fused\n",
    ],
)
def test_the_class_may_be_bound_in_any_plain_way(ending: str) -> None:
    source = with_python("").replace("class ModelNew", "class Other") + ending
    missing = "no-model-new" in {finding.kind for finding in found(source)}
    assert missing is ("ModelNew" not in ending)


def test_one_rule_broken_often_is_one_finding_with_a_count() -> None:
    (finding,) = found(with_python("a = eval('1')\nb = eval('2')\nc = eval('3')"))
    assert (finding.count, finding.location and finding.location.text) == (3, "a = eval('1')")


def test_errors_come_before_warnings_and_in_order_of_lines() -> None:
    kinds = [finding.kind for finding in found(with_python("import numpy\nimport gc\na = eval('1')"))]
    assert kinds == ["introspection", "dynamic-code", "extra-dependency"]


def test_lines_are_counted_as_the_parser_counts_them() -> None:
    source = with_python('text = "form feed \x0c and \\u2028"\n# \x0c\u2028\nimport gc').replace("\n", "\r\n")
    (finding,) = found(source)
    assert finding.location is not None
    assert finding.location.text == "import gc"
