#pragma once
#include "kw/host_error.h"
