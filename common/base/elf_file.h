// Reads the program headers of an ELF file, which say what each range of its bytes is for.
//
// Reads only a few hundred bytes, however large the file is. The result is empty if the file is cut short, or
// is not an ELF file for this kind of machine.
#pragma once

#include <cstdint>
#include <elf.h>
#include <functional>
#include <string>
#include <vector>

#include "common/base/file.h"

namespace muster {

// Returns `size` bytes from `offset` on, fewer at the end of the file, and none if the file cannot be read.
using ReadAt = std::function<std::string(std::uint64_t offset, std::size_t size)>;
// Returns a function that reads an open file. `fd` must outlive this function.
ReadAt reader_of(const UniqueFd& fd);

std::vector<Elf64_Phdr> elf_segments(const ReadAt& read);

// Returns the libraries that a program or library needs, in the order in which it names them.
std::vector<std::string> elf_needs(const ReadAt& read);

// Returns the loader that a program names; "" if it names none. The loader can list the libraries that the
// program would load, without starting the program.
std::string elf_loader(const ReadAt& read);

}  // namespace muster
