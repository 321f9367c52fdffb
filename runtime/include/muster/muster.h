// All of Muster's runtime: #include <muster/muster.h>.
#pragma once

#include <muster/distributed_data_parallel.h>
#include <muster/job.h>
#include <muster/seed.h>
#include <muster/spawn.h>
