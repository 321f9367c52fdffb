// Recognises folders that Python's streaming (MosaicML's MDS) and litdata write, by their index.json. Data
// sets refuse such a folder; the error says what it is and how to convert it.
//
// Plain functions, safe to call from any thread.
#pragma once

#include <string>

#include "common/base/error.h"

namespace muster {

// kCorrupt for such a folder, for its index, and for a file that the index next to it names.
Status check_is_no_stream(const std::string& path);

}  // namespace muster
