#pragma once
#include "kw/torch_cuda.h"
