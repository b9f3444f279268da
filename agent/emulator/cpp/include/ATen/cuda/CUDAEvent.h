#pragma once
#include "kw/host_cuda.h"
