// Whether a program declares that it may be started warm, by the ELF note that Muster::warm_start adds.
//
// Pure: reads a few hundred bytes by position, however large the program is. False for a file that is cut
// short, or is not an ELF file for this kind of machine.
#pragma once

#include <string>

#include "common/base/elf_file.h"

namespace muster::agent {

bool has_warm_note(const ReadAt& read);

// The path of a script's interpreter, from its "#!" line; otherwise empty.
std::string interpreter_of(const ReadAt& read);

}  // namespace muster::agent
