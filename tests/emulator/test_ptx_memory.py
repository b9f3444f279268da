"""Memory, atomics, control flow, calls and warp operations of PTX."""
# ruff: noqa: E501 - tables, with one case to a row

import re
from pathlib import Path

import numpy as np
import pytest
from device_library import Array
from ptx_cases import HEADER, Case, case, check, module
from ptx_library import PtxDevice

from agent.emulator import ptx

I32 = np.array([5, -1, 7, 2**31 - 1], "int32")
U32 = np.array([5, 0, 7, 2**32 - 1], "uint32")
U64 = np.array([5, 0, 2**63, 7], "uint64")
F32 = np.array([1.5, -2, 0, 1e10], "float32")
F64 = np.array([1.5, -2, 0, 1e100], "float64")
THREE = {kind: np.array([3, 9, 1, 3], kind) for kind in ("int32", "uint32", "uint64", "float32", "float64")}
H2 = np.array([0x3C004000, 0x40003C00], "uint32")

MODULE_SCOPE = """
.const .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 8};
.const .align 4 .f32 factors[2] = {0f3F800000, 0f40000000};
.global .align 4 .u32 counter = 41;
.global .align 8 .u64 pointers[2] = {generic(numbers+4), twice};
.global .align 4 .b32 numbers[3] = {11, 22, 33};
.func (.param .b32 out) twice(.param .b32 in)
{ .reg .b32 %r<3>; ld.param.u32 %r1, [in]; shl.b32 %r2, %r1, 1; st.param.b32 [out], %r2; ret; }
.func (.param .b32 out) factorial(.param .b32 in)
{
    .reg .b32 %r<5>; .reg .pred %p;
    ld.param.u32 %r1, [in];
    mov.u32 %r2, 1;
    setp.lt.u32 %p, %r1, 2;
    @%p bra DONE;
    sub.u32 %r3, %r1, 1;
    { .param .b32 a; st.param.b32 [a+0], %r3; .param .b32 r;
      call.uni (r), factorial, (a); ld.param.b32 %r4, [r+0]; }
    mul.lo.u32 %r2, %r1, %r4;
DONE:
    st.param.b32 [out], %r2;
    ret;
}
"""


def atomic(operation: str, kind: str, values: Array, expected: Array, shared: bool = False) -> Case:
    """The old value and the new one, side by side as 64 bits (or the new value, of 64-bit types)."""
    wide = values.dtype.itemsize == 8
    other = THREE[values.dtype.name]
    suffix = "b64" if wide else "b32"
    space, before, place = "global", "", "%ap"
    if shared:
        before = f".shared .align 4 .b8 cells_{operation}[16]; .reg .b32 %s; mov.u32 %s, cells_{operation};"
        before += "mad.lo.u32 %s, %i, 4, %s; st.shared.b32 [%s], %a;"
        space, place = "shared", "%s"
    exact = ".".join((operation, kind))
    body = f"{{ .reg .{suffix} %o, %n; {before} atom.{space}.{exact} %o, [{place}], %b; ld.{space}.{suffix} %n, [{place}];"
    if wide:
        return case(body + " mov.b64 %d, %n; }", expected, values, other, name=f"atom.{exact}")
    old, new = (array.view("uint32").astype("uint64") for array in (values, expected.astype(values.dtype)))
    return case(
        body + " mov.b64 %d, {%o, %n}; }",
        old | new << np.uint64(32),
        values,
        other,
        name=f"atom.{space}.{exact}",
    )


def wrapped_increment(a: Array, limit: Array) -> Array:
    return np.where(a >= limit, 0, a + np.uint32(1)).astype("uint32")


def wrapped_decrement(a: Array, limit: Array) -> Array:
    return np.where((a == 0) | (a > limit), limit, a - np.uint32(1)).astype("uint32")


def call(function: str, values: list[int]) -> Case:
    body = (
        "{ .param .b32 p; st.param.b32 [p+0], %a; .param .b32 r; "
        f"call.uni (r), {function}, (p); ld.param.b32 %d, [r+0]; }}"
    )
    return case(body, np.array(values, "uint32"), np.array([5, 0, 3], "uint32"), name=f"call {function}")


T = np.arange(64)
CASES = [
    *[atomic(op, "s32", I32, function(I32, THREE["int32"])) for op, function in (("min", np.minimum), ("max", np.maximum))],
    *[atomic(op, "u32", U32, function(U32, THREE["uint32"])) for op, function in (("add", np.add), ("min", np.minimum), ("max", np.maximum), ("inc", wrapped_increment), ("dec", wrapped_decrement))],
    *[atomic(op, "b32", U32, function(U32, THREE["uint32"])) for op, function in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor), ("exch", lambda a, b: b))],
    atomic("add", "u32", U32, U32 + THREE["uint32"], shared=True),
    atomic("add", "f32", F32, F32 + THREE["float32"]),
    atomic("add", "f64", F64, F64 + THREE["float64"]),
    atomic("add", "u64", U64, U64 + THREE["uint64"]),
    atomic("max", "u64", U64, np.maximum(U64, THREE["uint64"])),
    case("{ .reg .b32 %o; atom.global.cas.b32 %o, [%ap], 5, %b; ld.global.b32 %d, [%ap]; }", np.array([3, 0, 7, 2**32 - 1], "uint32"), U32, THREE["uint32"], name="atom.cas"),
    case("{ .reg .b32 %o; atom.global.add.noftz.f16x2 %o, [%ap], %b; ld.global.b32 %d, [%ap]; }", np.array([0x40004400, 0x44004000], "uint32"), H2, H2, name="atom.add.f16x2"),
    case("red.global.add.s32 [%ap], 4; ld.global.b32 %d, [%ap];", np.array([9, 3, 11, -(2**31) + 3], "int32"), I32, name="red.add"),
    case("{ .reg .f32 %u<4>, %v<4>; .reg .b64 %s; mad.wide.u32 %s, %i, -4, %ap; mad.wide.u32 %s, %i, 16, %ap; sub.u64 %s, %s, 0; ld.global.ca.f32 %d, [%ap+0]; }",
         F32, F32, name="address arithmetic"),
    case("{ .reg .b16 %h; cvt.u16.u32 %h, %a; { .local .align 4 .b8 slot[4]; .reg .b64 %l; mov.u64 %l, slot; st.local.u32 [%l], 0; st.local.u8 [%l+1], %h; ld.local.u32 %d, [%l]; } }",
         (U32 & 255) << np.uint32(8), U32, name="st.local.u8"),
    case("{ .reg .b32 %w; ld.global.s8 %w, [%ap]; mov.b32 %d, %w; }", np.array([5, 0, 7, 2**32 - 1], "uint32"), U32, name="ld.s8 into 32 bits"),
    case("{ .reg .b64 %t; mov.u64 %t, table; cvta.const.u64 %t, %t; mad.wide.u32 %t, %i, 4, %t; ld.u32 %d, [%t]; }", np.array([1, 2, 4, 8], "uint32"), name="generic load of .const"),
    case("ld.const.f32 %d, [factors+4];", np.array([2, 2], "float32"), name=".const floats"),
    case("ld.global.u32 %d, [counter];", np.array([41], "uint32"), name=".global scalar"),
    case("{ .reg .b64 %t; ld.global.u64 %t, [pointers]; ld.u32 %d, [%t]; }", np.array([22], "uint32"), name="an address in an initialiser"),
    case("{ .reg .b64 %t; .param .b32 p; .param .b32 r; st.param.b32 [p], %a; ld.global.u64 %t, [pointers+8]; kind: .callprototype (.param .b32 _) _ (.param .b32 _); "
         "call (r), %t, (p), kind; ld.param.b32 %d, [r]; }", np.array([10, 0, 6], "uint32"), np.array([5, 0, 3], "uint32"), name="indirect call"),
    call("twice", [10, 0, 6]),
    call("factorial", [120, 1, 6]),
    case("{ .reg .b32 %l, %h; mov.b64 {%l, %h}, %a; mov.b64 %d, {%h, %l}; }", np.array([5 << 32, 0, 2**31, 7 << 32], "uint64"), U64, name="mov of pairs"),
    case("{ .reg .b16 %h<4>; mov.b64 {%h0, %h1, %h2, _}, %a; mov.b32 %d, {%h2, %h0}; }", np.array([5 << 16], "uint32"), np.array([5], "uint64"), name="mov of four"),
    case("{ .reg .b32 %s; brx_case: .branchtargets A, B, C; and.b32 %s, %i, 3; min.u32 %s, %s, 2; brx.idx %s, brx_case; A: mov.u32 %d, 100; bra.uni END; B: mov.u32 %d, 200; bra END; C: mov.u32 %d, 300; END: }",
         np.array([100, 200, 300, 300], "uint32"), name="brx.idx"),
    case("{ .reg .pred t; .reg .b32 %k; mov.u32 %d, 0; mov.u32 %k, 0; AGAIN: setp.ge.u32 t, %k, %a; @t bra OUT; add.u32 %d, %d, %k; add.u32 %k, %k, 1; @!t bra AGAIN; OUT: }",
         np.array([10, 0, 21, 3], "uint32"), np.array([5, 0, 7, 3], "uint32"), name="a loop"),
    *[case(f"shfl.sync.{mode}.b32 %d, %i, {b}, {c}, -1;", np.array(lanes, "uint32"), name=f"shfl.{mode} {b} {c:#x}") for mode, b, c, lanes in (
        ("idx", 3, 0x1F, T // 32 * 32 + 3), ("idx", 9, 0x181F, T // 8 * 8 + 1), ("up", 1, 0, np.where(T % 32, T - 1, T)),
        ("up", 2, 0x1C00, np.where(T % 4 > 1, T - 2, T)), ("down", 2, 0x1F, np.where(T % 32 < 30, T + 2, T)), ("bfly", 5, 0x1F, T ^ 5),
        ("bfly", 16, 0x101F, np.where(T % 32 < 16, T, T - 16)), ("down", 1, 0x0A, np.where(T % 32 < 10, T + 1, T)))],
    case("{ .reg .pred t; .reg .b32 %v; shfl.sync.down.b32 %v|t, %i, 1, 0x1c03, -1; selp.b32 %d, 1, 0, t; }", np.array(T % 4 < 3, "uint32"), name="shfl's predicate"),
    case("{ .reg .pred t; setp.lt.u32 t, %i, 40; vote.sync.ballot.b32 %d, t, -1; }", np.where(T < 32, 2**32 - 1, 255).astype("uint32"), name="vote.ballot"),
    case("{ .reg .pred t, u, v, w; .reg .b32 %x, %y; setp.lt.u32 t, %i, 40; vote.sync.all.pred u, t, -1; vote.sync.any.pred v, !t, -1; vote.sync.uni.pred w, t, -1;"
         " selp.b32 %d, 1, 0, u; selp.b32 %x, 2, 0, v; selp.b32 %y, 4, 0, w; or.b32 %d, %d, %x; or.b32 %d, %d, %y; }",
         np.where(T < 32, 5, 2).astype("uint32"), name="vote.all any uni"),
    case("{ .reg .b32 %k; and.b32 %k, %i, 1; match.any.sync.b32 %d, %k, -1; }", np.where(T % 2, 0xAAAAAAAA, 0x55555555).astype("uint32"), name="match.any"),
    case("{ .reg .pred t; .reg .b32 %k, %m; shr.u32 %k, %i, 5; match.all.sync.b32 %m|t, %k, -1; selp.b32 %d, %m, 0, t; }", np.full(64, 2**32 - 1, "uint32"), name="match.all"),
    case("redux.sync.add.s32 %d, %i, -1;", np.where(T < 32, 496, 1520).astype("uint32")),
    case("redux.sync.max.u32 %d, %i, -1;", np.where(T < 32, 31, 63).astype("uint32")),
    case("activemask.b32 %d;", np.full(64, 2**32 - 1, "uint32")),
    case("{ .reg .pred t; setp.lt.u32 t, %i, 40; barrier.red.popc.u32 %d, 0, t; bar.warp.sync -1; bar.sync 0; }", np.full(64, 40, "uint32"), name="bar.red.popc"),
    case("{ .reg .pred t, u; setp.lt.u32 t, %i, 40; bar.red.or.pred u, 0, !t; selp.b32 %d, 1, 0, u; }", np.full(64, 1, "uint32"), name="bar.red.or"),
    case("{ .reg .b32 %x, %y; mov.u32 %x, %laneid; mov.u32 %y, %warpid; mad.lo.u32 %d, %y, 100, %x; mov.u32 %x, %lanemask_lt; popc.b32 %x, %x; mov.u32 %y, WARP_SZ; add.u32 %y, %y, 32; mad.lo.u32 %d, %x, %y, %d; }",
         (T // 32 * 100 + T % 32 * 65).astype("uint32"), name="special registers"),
    case("{ .shared .align 16 .b8 row[1024]; .reg .b32 %s, %q; .reg .b64 %g, %h; mov.u32 %s, row; shl.b32 %q, %i, 4; add.u32 %s, %s, %q; cp.async.ca.shared.global [%s], [%ap], 8, 4; cp.async.commit_group; cp.async.wait_group 0;"
         " cvt.u64.u32 %g, %s; cvta.shared.u64 %g, %g; ld.v2.u32 {%q, %d}, [%g]; cvta.to.shared.u64 %h, %g; cvt.u32.u64 %s, %h; ld.shared.u32 %q, [%s]; add.u32 %d, %d, %q; }",
         np.array([5, 0, 2**31 - 1, 7], "uint64").astype("uint32"), np.array([5, 0, 2**31 - 1, 7], "uint64"), name="cp.async and cvta.shared"),
    case("{ .reg .pred t; isspacep.shared t, %ap; selp.b32 %d, 1, 0, t; membar.gl; fence.acq_rel.gpu; }", np.array([0], "uint32"), np.array([1], "uint32"), name="isspacep.shared"),
]  # fmt: skip


@pytest.fixture(scope="module")
def device() -> PtxDevice:
    return module("ptx_memory", CASES, MODULE_SCOPE)


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: CASES[n].name)
def test_instruction(device: PtxDevice, number: int) -> None:
    check(device, number, CASES[number])


REFUSED = [
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r1}, {%r1}, {%r1}, {%r1};",
    "add.rn.xyz.f32 %f1, %f1, %f1;",
    "tex.2d.v4.f32.f32 {%f1, %f1, %f1, %f1}, [%rd1, {%f1, %f1}];",
    "bar.sync 1, 64, 3;",
    "cvt.rn.tf32.f64 %r1, %fd1;",
    "fma.f32 %f1, %f1, %f1, %f1;",
    "mov.u32 %r1, %pm0;",
    "call.uni cudaLaunchDeviceV2, ();",
    "shfl.up.b32 %r1, %r1, 1, 0;",
    "isspacep.local %p1, %rd1;",
]


@pytest.mark.parametrize("instruction", REFUSED)
def test_what_is_not_known_is_refused_with_its_line(instruction: str) -> None:
    text = HEADER + (
        '.file 1 "/somewhere/kernel.cu"\n.visible .entry k() {\n'
        ".reg .b32 %r<2>; .reg .f32 %f<2>; .reg .b64 %rd<2>; .reg .pred %p<2>;\n"
        f".loc 1 12 3\n{instruction}\nret;\n}}\n"
    )
    with pytest.raises(ptx.Untranslated) as caught:
        ptx.unit(text, ["kernel.cu"])
    assert caught.value.line == 12


def test_lines_are_the_callers_where_code_was_inlined_from_a_header() -> None:
    text = HEADER + "\n".join(
        [
            '.file 1 "kernel.cu"', '.file 2 "/cuda/header.hpp"', ".visible .entry k() {", ".loc 1 5 1", "bar.sync 0;",
            ".loc 2 99 2, function_name $L__info_string0, inlined_at 1 7 9", "bar.sync 0;",
            ".loc 2 44 2, function_name $L__info_string1, inlined_at 2 99 2", "bar.sync 0;", ".loc 1 9 4", "ret;", "}",
        ]
    )  # fmt: skip
    barriers = re.findall(
        r"kw_barrier\(KW_BARRIER_PLAIN, 0, (\d+, \d+)\)", ptx.unit(text, ["kernel.cu"]).text
    )
    assert barriers == ["5, 1", "7, 9", "7, 9"]


def test_a_truncated_module_is_refused() -> None:
    with pytest.raises(ptx.Untranslated, match="the end of the text"):
        ptx.unit(HEADER + ".visible .entry k() { ret;", ["kernel.cu"])


def test_checked_code_names_the_line_of_an_access(tmp_path: Path) -> None:
    text = HEADER + (
        '.file 1 "late.cu"\n.visible .entry late(.param .u64 p) { .reg .b64 %x; .reg .b32 %i;\n'
        ".loc 1 3 1\nld.param.u64 %x, [p]; mov.u32 %i, %tid.x; mad.wide.u32 %x, %i, 4, %x;\n"
        ".loc 1 4 1\nst.global.u32 [%x], %i;\n.loc 1 5 1\nret;\n}\n"
    )
    device = PtxDevice(Path("late.cu"), text, checked=True)
    device.runtime.kw_check(1)
    try:
        device.launch("late", 1, 33, device.empty(32, "uint32"))
        [finding] = device.findings()
    finally:
        device.runtime.kw_check(0)
        device.reset()
    assert (finding["kind"], finding["line"], finding["thread"]) == (
        "global-out-of-bounds-write",
        4,
        [32, 0, 0],
    )
