// events.jsonl: what happened to a job, one JSON object a line, written as it happens. Pure: the caller
// appends.
#pragma once

#include <string>

#include "launcher/core/job/job_events.h"

namespace muster::launcher {

// {"time": 1763742345.123, "event": "worker_exited", "attempt": 1, "rank": 2, "node": 1, "host": "h2",
// "text": "..."}; fields that say nothing are left out. `time`: seconds since 1970. Ends with a newline.
std::string event_line(const Record& what, double time);

}  // namespace muster::launcher
