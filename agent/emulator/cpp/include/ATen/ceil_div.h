#pragma once
#include "kw/host.h"
