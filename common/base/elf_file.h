// The program headers of an ELF file: which of its bytes are for what.
//
// Bytes are asked for by position, a few hundred of them, however large the program is. A file that is torn,
// or no ELF file of this machine's kind, has none.
#pragma once

#include <cstdint>
#include <elf.h>
#include <functional>
#include <string>
#include <vector>

#include "common/base/file.h"

namespace muster {

// `size` bytes from `offset`; fewer at the end of the file, none if it cannot be read.
using ReadAt = std::function<std::string(std::uint64_t offset, std::size_t size)>;
// Reads an open file, which must outlive the result.
ReadAt reader_of(const UniqueFd& fd);

std::vector<Elf64_Phdr> elf_segments(const ReadAt& read);

// The libraries that a program or library names as needed, in their order.
std::vector<std::string> elf_needs(const ReadAt& read);

// The loader that a program names, which can list the libraries that it would load without starting it. ""
// for one that needs none.
std::string elf_loader(const ReadAt& read);

}  // namespace muster
