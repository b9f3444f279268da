"""Which kernels racecheck may be wrong about."""

import pytest
from ptx_library import NVCC

from agent import config
from agent.build.build_request import BuildRequest
from agent.harness.confirmation import sanitizer, unfollowed
from agent.records import Finding, Location

PTX = """\
.version 8.8
.target sm_90a
.func  (.param .b32 func_retval0) _Z6helperi(
	.param .b32 _Z6helperi_param_0
)
{
	mbarrier.arrive.shared::cta.b64 _, [%r1];
	ret;
}
.visible .entry _ZN2ns4ringILi4EEEvPf(
	.param .u64 _ZN2ns4ringILi4EEEvPf_param_0
)
.maxntid 128
{
	// begin inline asm
	{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%r1], %r2; @!done bra again; }
	// end inline asm
	ret;
}
.visible .entry _Z5callsPf(.param .u64 p)
{
	call.uni (retval0), _Z6helperi, (param0);
	ret;
}
.weak .entry _Z5meetsPf(.param .u64 p)
{
	barrier.cluster.arrive.release;
	barrier.cluster.wait.acquire;
	ret;
}
.visible .entry _Z5plainPf(.param .u64 p)
{
	// mbarrier.arrive is a word here
	bar.sync 0;
	ret;
}
.visible .entry in_c(.param .u64 p)
{
	ret;
}
.visible .entry _Z4flagPf(.param .u64 p)
{
	ld.acquire.cta.shared.s32 %r1, [%r2];
	ret;
}
"""
KNOWN = unfollowed.of_ptx(PTX)
SOURCE = r"""
__global__ void at_a_barrier(float* y) {
    __shared__ unsigned long long barrier;
    unsigned at = __cvta_generic_to_shared(&barrier);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at));
    y[0] = 1.0f;
}
__global__ void plain(float* y) { __syncthreads(); y[0] = 1.0f; }
"""


def race(kernel: str) -> Finding:
    (found,) = sanitizer.parsed(
        f"========= Error: Race reported between Read access at {kernel}(float *)+0x1f0\n"
    )
    return found


def test_a_kernel_waits_by_its_own_instructions_or_those_of_what_it_calls() -> None:
    assert KNOWN.waiting == {"_ZN2ns4ringILi4EEEvPf", "_Z5callsPf", "_Z4flagPf"}
    assert KNOWN.others == {"_Z5meetsPf", "_Z5plainPf", "in_c"}


@pytest.mark.parametrize(
    ("name", "may_be_wrong"),
    [
        ("ring", True),
        ("flag", True),
        ("plain", False),
        ("meets", False),
        ("in_c", False),
        ("put_into_ring", True),
    ],
)
def test_a_report_is_doubted_by_the_plain_name_that_it_gives(name: str, may_be_wrong: bool) -> None:
    """A name of no kernel is that of a function which the compiler has put into one."""
    assert KNOWN.may_be_wrong(name) is may_be_wrong
    assert not unfollowed.Kernels(others=KNOWN.others).may_be_wrong(name)


def test_a_name_is_no_part_of_a_longer_one() -> None:
    known = unfollowed.Kernels(frozenset({"_Z14ring_of_stagesPf"}), frozenset({"_Z4ringPf"}))
    assert not known.may_be_wrong("ring")


@pytest.mark.skipif(NVCC is None, reason="no nvcc: nothing says which instructions a kernel has")
def test_the_instructions_are_those_that_nvcc_makes_of_what_was_built() -> None:
    request = BuildRequest(name="x", cpp_sources=("",), cuda_sources=(SOURCE,))
    known = unfollowed.kernels([request], config.load({}, offline=True).settings.cache_dir)
    assert [len(names) for names in known] == [1, 1]
    assert known.may_be_wrong("at_a_barrier")
    assert not known.may_be_wrong("plain")


def test_a_report_of_such_a_kernel_is_a_warning_and_any_other_is_not() -> None:
    assert unfollowed.weighed(race("ring"), KNOWN).severity == "warning"
    assert unfollowed.weighed(race("plain"), KNOWN) == race("plain")
    outside = Finding(kind=sanitizer.OUT_OF_BOUNDS, message="Invalid read.", location=Location(kernel="ring"))
    assert unfollowed.weighed(outside, KNOWN) == outside
