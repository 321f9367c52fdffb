// Recognises folders that Python's streaming (MosaicML's MDS) and litdata write, by their index.json: data
// sets that are given one say what it is, and how it is written for them.
//
// Plain functions, safe to call from any thread.
#pragma once

#include <string>

#include "common/base/error.h"

namespace muster {

// kCorrupt for such a folder, its index, and a file that the index beside it names.
Status check_is_no_stream(const std::string& path);

}  // namespace muster
