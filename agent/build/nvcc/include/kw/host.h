// The names of torch that host code uses, declared for NVIDIA's front end and never defined: device
// code is what it compiles. Stands in front of the headers of the same names that g++ compiles; the
// standard headers here are the cheap ones, the unit asks for more where the source names them.
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
