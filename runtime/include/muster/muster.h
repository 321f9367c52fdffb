// All of Muster's runtime: #include <muster/muster.h>.
#pragma once

#include <muster/job.h>
#include <muster/seed.h>
