// Names of torch that host code uses, declared for nvcc's front end and never defined: nvcc compiles only the device
// code. nvcc searches this directory before that of g++'s headers, which have equal names. This header includes the
// small standard headers; the unit adds larger ones that the source names.
#pragma once
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "kw/host_dispatch.h"
#include "kw/host_operators.h"
