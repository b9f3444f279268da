// Redefines the functions that --use_fast_math replaces by approximate ones (CUDA C++ Programming Guide,
// "--use_fast_math"). The definitions hold for the whole extension, because std::tanh of a float calls tanhf too. This
// header is included after the candidate's code.
#pragma once

#define KW_FAST_MATH extern "C" __attribute__((visibility("hidden")))

KW_FAST_MATH float expf(float x) noexcept { return kw_expf(x); }
KW_FAST_MATH float exp10f(float x) noexcept { return kw_exp10f(x); }
KW_FAST_MATH float logf(float x) noexcept { return kw_logf(x); }
KW_FAST_MATH float log2f(float x) noexcept { return kw_log2f(x); }
KW_FAST_MATH float log10f(float x) noexcept { return kw_log10f(x); }
KW_FAST_MATH float powf(float x, float y) noexcept { return kw_powf(x, y); }
KW_FAST_MATH float sinf(float x) noexcept { return kw_sinf(x); }
KW_FAST_MATH float cosf(float x) noexcept { return kw_cosf(x); }
KW_FAST_MATH float tanf(float x) noexcept { return kw_tanf(x); }
KW_FAST_MATH float tanhf(float x) noexcept { return kw_tanhf(x); }
KW_FAST_MATH void sincosf(float x, float* s, float* c) noexcept { kw_sincosf(x, s, c); }

#undef KW_FAST_MATH
