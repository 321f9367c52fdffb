// Finds out whether a program has the ELF note of Muster::warm_start, which declares that the program may be
// started warm.
//
// Pure: `read` reads the file. Only a few hundred bytes are read, however large the program is. A file that
// is cut short, or is not an ELF file for this kind of machine, counts as a file without the note.
#pragma once

#include <string>

#include "common/base/elf_file.h"

namespace muster::agent {

bool has_warm_note(const ReadAt& read);

// Returns the path of a script's interpreter, which follows "#!" in the first line. Returns "" if there is no
// such line.
std::string interpreter_of(const ReadAt& read);

}  // namespace muster::agent
