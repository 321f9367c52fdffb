// Recognises folders that Python's streaming (MosaicML's MDS) and litdata write, by their index.json. Data
// sets refuse such a folder; the error says what it is and how to convert it.
//
// Plain functions, safe to call from any thread.
#pragma once

#include <string>

#include "common/base/error.h"

namespace muster {

// Returns kCorrupt if `path` is such a folder, its index, or a file that an index in the same folder names.
Status check_is_no_stream(const std::string& path);

}  // namespace muster
