#include "common/base/elf_file.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>
#include <optional>
#include <unistd.h>

namespace muster {

namespace {

constexpr std::size_t kMaxSegments = 512;
constexpr std::size_t kMaxPathBytes = 4096;
constexpr std::size_t kMaxDynamicBytes = std::size_t{64} << 10;

// Returns where in the file the byte at this address is.
std::optional<std::uint64_t> offset_of(const std::vector<Elf64_Phdr>& segments, std::uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz)
      return segment.p_offset + (address - segment.p_vaddr);
  }
  return std::nullopt;
}

std::vector<Elf64_Dyn> dynamic_entries(const ReadAt& read, const std::vector<Elf64_Phdr>& segments) {
  const auto found = std::ranges::find(segments, Elf64_Word{PT_DYNAMIC}, &Elf64_Phdr::p_type);
  if (found == segments.end() || found->p_filesz > kMaxDynamicBytes) return {};
  const std::string table = read(found->p_offset, found->p_filesz);
  std::vector<Elf64_Dyn> entries(table.size() / sizeof(Elf64_Dyn));
  if (!entries.empty()) std::memcpy(entries.data(), table.data(), entries.size() * sizeof(Elf64_Dyn));
  entries.erase(std::ranges::find(entries, Elf64_Sxword{DT_NULL}, &Elf64_Dyn::d_tag), entries.end());
  return entries;
}

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

std::vector<std::string> elf_needs(const ReadAt& read) {
  const std::vector<Elf64_Phdr> segments = elf_segments(read);
  const std::vector<Elf64_Dyn> entries = dynamic_entries(read, segments);
  const auto names = std::ranges::find(entries, Elf64_Sxword{DT_STRTAB}, &Elf64_Dyn::d_tag);
  const auto place = names == entries.end() ? std::nullopt : offset_of(segments, names->d_un.d_ptr);
  std::vector<std::string> needs;
  for (const Elf64_Dyn& entry : entries) {
    if (!place || entry.d_tag != DT_NEEDED) continue;
    const std::string name = read(*place + entry.d_un.d_val, NAME_MAX + 1);
    needs.emplace_back(name.c_str());  // ends at the terminating zero
  }
  return needs;
}

std::string elf_loader(const ReadAt& read) {
  for (const Elf64_Phdr& segment : elf_segments(read)) {
    if (segment.p_type != PT_INTERP || segment.p_filesz > kMaxPathBytes) continue;
    const std::string name = read(segment.p_offset, segment.p_filesz);
    return name.size() == segment.p_filesz ? name.c_str() : "";  // without the terminating zero
  }
  return "";
}

}  // namespace muster
