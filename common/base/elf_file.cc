#include "common/base/elf_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unistd.h>

namespace muster {

namespace {

constexpr std::size_t kMaxSegments = 512;
constexpr std::size_t kMaxPathBytes = 4096;

}  // namespace

ReadAt reader_of(const UniqueFd& fd) {
  return [&fd](std::uint64_t offset, std::size_t size) {
    std::string bytes(size, '\0');
    const ssize_t got = pread(fd.get(), bytes.data(), size, static_cast<off_t>(offset));
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return bytes;
  };
}

std::vector<Elf64_Phdr> elf_segments(const ReadAt& read) {
  const std::string start = read(0, sizeof(Elf64_Ehdr));
  if (start.size() < sizeof(Elf64_Ehdr)) return {};
  Elf64_Ehdr header;
  std::memcpy(&header, start.data(), sizeof header);
  constexpr auto kOwnOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != kOwnOrder || header.e_phentsize != sizeof(Elf64_Phdr) ||
      header.e_phnum > kMaxSegments)
    return {};
  const std::string table = read(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr));
  std::vector<Elf64_Phdr> segments(table.size() / sizeof(Elf64_Phdr));
  if (!segments.empty()) std::memcpy(segments.data(), table.data(), segments.size() * sizeof(Elf64_Phdr));
  return segments;
}

std::string elf_loader(const ReadAt& read) {
  for (const Elf64_Phdr& segment : elf_segments(read)) {
    if (segment.p_type != PT_INTERP || segment.p_filesz > kMaxPathBytes) continue;
    const std::string name = read(segment.p_offset, segment.p_filesz);
    return name.size() == segment.p_filesz ? name.c_str() : "";  // without its zero
  }
  return "";
}

}  // namespace muster
