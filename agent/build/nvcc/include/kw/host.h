// Names of torch that host code uses, declared for nvcc's front end and never defined: nvcc compiles only the device
// code. This directory precedes that of g++'s headers of the same names. It includes the cheap standard headers; the
// unit adds others that the source names.
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
