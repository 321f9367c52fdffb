// Reads the program headers of an ELF file. They say what each range of the file's bytes is for.
//
// Only a few hundred bytes are read, no matter how large the file is. The result is empty if the file is cut
// short, or if it is not an ELF file for this kind of machine.
#pragma once

#include <cstdint>
#include <elf.h>
#include <functional>
#include <string>
#include <vector>

#include "common/base/file.h"

namespace muster {

// Returns `size` bytes, beginning at `offset`. At the end of the file there are fewer. If the file cannot be
// read, there are none.
using ReadAt = std::function<std::string(std::uint64_t offset, std::size_t size)>;
// Returns a function that reads an open file. `fd` must outlive this function.
ReadAt reader_of(const UniqueFd& fd);

std::vector<Elf64_Phdr> elf_segments(const ReadAt& read);

// Returns the names of the libraries that a program or library needs, in the order in which its file names
// them.
std::vector<std::string> elf_needs(const ReadAt& read);

// Returns the path of the loader that a program names. Returns "" if it names none. The loader can list the
// libraries that the program would load, without starting the program.
std::string elf_loader(const ReadAt& read);

}  // namespace muster
