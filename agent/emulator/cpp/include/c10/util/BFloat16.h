#pragma once
#include "kw/host_half.h"
