// Slim replacement of torch's headers: all parts that need no CUDA header.
#pragma once
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <unordered_map>

#include "kw/host_dispatch.h"
#include "kw/host_operators.h"
