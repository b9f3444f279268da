#pragma once
#include "kw/host_bind.h"
