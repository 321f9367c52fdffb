#include "agent/core/start/elf_note.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

namespace muster::agent {

namespace {

constexpr std::size_t kMaxNoteBytes = 64 << 10;  // of all notes of one segment
constexpr std::size_t kMaxLineBytes = 256;       // the kernel's limit for the first line of a script
constexpr std::string_view kName("Muster", sizeof "Muster");
constexpr std::uint32_t kType = 1;
constexpr std::uint32_t kVersion = 1;

template <class Struct>
std::optional<Struct> take(std::string_view& bytes) {
  if (bytes.size() < sizeof(Struct)) return std::nullopt;
  Struct value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

std::optional<std::string_view> take_padded(std::string_view& bytes, std::size_t size) {
  if (bytes.size() < size) return std::nullopt;
  const std::string_view taken = bytes.substr(0, size);
  bytes.remove_prefix(std::min((size + 3) / 4 * 4, bytes.size()));
  return taken;
}

bool is_warm_note(const Elf64_Nhdr& header, std::string_view name, std::string_view value) {
  return header.n_type == kType && name == kName && take<std::uint32_t>(value) == kVersion;
}

bool found_in(std::string_view notes) {
  while (const auto header = take<Elf64_Nhdr>(notes)) {
    const auto name = take_padded(notes, header->n_namesz);
    const auto value = name ? take_padded(notes, header->n_descsz) : std::nullopt;
    if (!value) return false;
    if (is_warm_note(*header, *name, *value)) return true;
  }
  return false;
}

}  // namespace

bool has_warm_note(const ReadAt& read) {
  return std::ranges::any_of(elf_segments(read), [&](const Elf64_Phdr& segment) {
    return segment.p_type == PT_NOTE && segment.p_filesz <= kMaxNoteBytes &&
           found_in(read(segment.p_offset, segment.p_filesz));
  });
}

std::string interpreter_of(const ReadAt& read) {
  const std::string start = read(0, kMaxLineBytes);
  if (!start.starts_with("#!")) return "";
  const std::size_t first = start.find_first_not_of(" \t", 2);
  if (first == std::string::npos) return "";
  return start.substr(first, start.find_first_of(" \t\r\n", first) - first);
}

}  // namespace muster::agent
