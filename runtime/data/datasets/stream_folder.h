// Recognizes folders that Python's streaming (MosaicML's MDS) or litdata has written, by their index.json.
// Datasets refuse such a folder. The error says what it is and how to convert it.
//
// Any thread can call the function.
#pragma once

#include <string>

#include "common/base/error.h"

namespace muster {

// Returns kCorrupt if `path` is such a folder, its index, or a file that an index in the same folder names.
Status check_is_no_stream(const std::string& path);

}  // namespace muster
