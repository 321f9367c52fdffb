// Whether a program says of itself that it may be started warm: the ELF note that Muster::warm_start leaves.
//
// Pure: bytes are asked for by position, a few hundred of them, however large the program is. A file that is
// torn, or no ELF file of this machine's kind, says nothing.
#pragma once

#include <string>

#include "common/base/elf_file.h"

namespace muster::agent {

bool has_warm_note(const ReadAt& read);

// The path of the interpreter of a script that begins with "#!"; else empty.
std::string interpreter_of(const ReadAt& read);

}  // namespace muster::agent
