#pragma once
#include "kw/host.h"
#include "kw/host_bind.h"
