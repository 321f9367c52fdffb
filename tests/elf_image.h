// Small ELF files, built in memory.
#pragma once

#include <cstring>
#include <elf.h>
#include <string>

#include "common/base/elf_file.h"

namespace muster {

// `file` must outlive the reader.
inline ReadAt reader_of(const std::string& file) {
  return [&file](std::uint64_t offset, std::size_t size) {
    return offset < file.size() ? file.substr(offset, size) : std::string();
  };
}

// Has a code segment and a second one of type `type`: it contains `content`, and its header claims a size of
// `stated_bytes`.
inline std::string elf_image(Elf64_Word type, const std::string& content, Elf64_Xword stated_bytes) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_phoff = sizeof header;
  header.e_phnum = 2;
  header.e_phentsize = sizeof(Elf64_Phdr);
  Elf64_Phdr segments[2]{};
  segments[0].p_type = PT_LOAD;
  segments[1].p_type = type;
  segments[1].p_offset = sizeof header + sizeof segments;
  segments[1].p_filesz = stated_bytes;
  std::string bytes(sizeof header + sizeof segments, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, segments, sizeof segments);
  return bytes + content;
}

}  // namespace muster
