// Recognizes folders that Python's streaming (MosaicML's MDS) or litdata has written, by their index.json.
// Datasets refuse such a folder. The error says what it is and how to convert it.
//
// Any thread can call the function.
#pragma once

#include <string>

#include "common/base/error.h"

namespace muster {

// Returns kCorrupt if `path` is a folder that MDS or litdata has written, the index of such a folder, or a
// file that is listed in the index.
Status check_is_no_stream(const std::string& path);

}  // namespace muster
