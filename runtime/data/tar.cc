#include "runtime/data/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <string_view>

#include "common/base/text.h"
#include "runtime/data/file_kind.h"

namespace muster {

namespace {

constexpr std::size_t kTarBlock = 512;
constexpr std::int64_t kLargestEntry = std::int64_t{1} << 50;
constexpr std::int64_t kLargestExtension = 1 << 20;  // a name, or a table of them

using TarBlock = std::array<char, kTarBlock>;

std::string_view header_field(const TarBlock& block, std::size_t at, std::size_t size) {
  return std::string_view(block.data(), block.size()).substr(at, size);
}

std::string_view up_to_zero(std::string_view text) {
  return text.substr(0, text.find('\0'));
}

// Octal digits between spaces and zeros; GNU's numbers that need more have the highest bit set.
std::optional<std::int64_t> number_in_field(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (static_cast<unsigned char>(text[0]) == 0x80) {
    std::uint64_t value = 0;
    for (const char byte : text.substr(1)) {
      if (value >> 50 != 0) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(byte);
    }
    return static_cast<std::int64_t>(value);
  }
  const std::size_t begin = text.find_first_not_of(' ');
  text = begin == std::string_view::npos ? "" : up_to_zero(text.substr(begin));
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (text.empty()) return 0;
  if (code != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Of all bytes, its own field counted as spaces; some old programs have added them up with signs.
bool has_right_sum(const TarBlock& block) {
  constexpr std::size_t kAt = 148, kSize = 8;
  std::int64_t without_sign = 0, with_sign = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const char byte = i >= kAt && i < kAt + kSize ? ' ' : block[i];
    without_sign += static_cast<unsigned char>(byte);
    with_sign += static_cast<signed char>(byte);
  }
  const auto said = number_in_field(header_field(block, kAt, kSize));
  return said && (*said == without_sign || *said == with_sign);
}

bool is_zero_block(const TarBlock& block) {
  return std::ranges::all_of(block, [](char byte) { return byte == 0; });
}

// Links, directories and devices have no contents, whatever their size says.
bool has_contents(char type) {
  return std::string_view("123456").find(type) == std::string_view::npos;
}

std::int64_t tar_padding(std::int64_t size) {
  constexpr auto kBlockSize = static_cast<std::int64_t>(kTarBlock);
  return (kBlockSize - size % kBlockSize) % kBlockSize;
}

}  // namespace

struct TarReader::Header {
  std::string name;
  std::int64_t size = 0;
  char type = 0;
};

Status TarReader::check_archive(const std::string& path) {
  return check_is_file_of(path, {FileKind::kTar, FileKind::kGzip});
}

Expected<TarReader> TarReader::open(const std::string& path) {
  if (Status usable = check_archive(path); !usable) return std::unexpected(usable.error());
  auto file = GzipFile::open(path);
  if (!file) return std::unexpected(file.error());
  return TarReader(path, *std::move(file));
}

std::unexpected<Error> TarReader::corrupt(const std::string& what) const {
  return failure(ErrorCode::kCorrupt, "cannot read {}: {}", path_, what);
}

Expected<std::string> TarReader::read(std::int64_t size) {
  auto bytes = file_.read_text(static_cast<std::uint64_t>(size));
  if (bytes && std::ssize(*bytes) < size) return corrupt("it is cut off");
  return bytes;
}

Status TarReader::pass_over() {
  if (const std::int64_t size = std::exchange(size_, 0); size > 0) {
    if (Status passed = file_.skip(size - 1); !passed) return passed;
    char last = 0;  // to seek beyond the end of a plain file is no error
    const auto got = file_.read(&last, 1);
    if (!got) return std::unexpected(got.error());
    if (*got == 0) return corrupt("it is cut off");
  }
  return file_.skip(std::exchange(padding_, 0));
}

// Nothing at the block of zeros, and where it is missing.
Expected<std::optional<TarReader::Header>> TarReader::header() {
  TarBlock block{};
  const auto got = file_.read(block.data(), block.size());
  if (!got) return std::unexpected(got.error());
  lacks_end_ = *got == 0 && has_begun_;
  if (lacks_end_) return std::nullopt;
  if (*got < block.size())
    return corrupt(*got == 0    ? "it is empty"
                   : has_begun_ ? "it is cut off"
                                : "it is no tar archive, or cut off");
  has_begun_ = true;
  if (is_zero_block(block)) return std::nullopt;
  if (!has_right_sum(block)) return corrupt("not a tar archive, or a header of it is damaged");
  Header header{.name = std::string(up_to_zero(header_field(block, 0, 100))), .type = block[156]};
  const std::string_view prefix = up_to_zero(header_field(block, 345, 155));
  if (header_field(block, 257, 6) == std::string_view("ustar\0", 6) && !prefix.empty())
    header.name = std::string(prefix) + "/" + header.name;
  const auto size = number_in_field(header_field(block, 124, 12));
  if (!size || *size > kLargestEntry)
    return corrupt(fmt::format("the size of {} is damaged", one_line(header.name)));
  header.size = *size;
  return header;
}

// "27 path=images/000001.jpg\n", one after the other; the number counts all of it.
Status TarReader::parse_records(Extension& extension, const std::string& records) const {
  for (std::string_view rest = records; !rest.empty();) {
    std::size_t size = 0;
    const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    const auto digits = static_cast<std::size_t>(end - rest.data());
    if (code != std::errc() || size > rest.size() || size < digits + 2 || rest[digits] != ' ' ||
        rest[size - 1] != '\n')
      return corrupt("a pax header is damaged");
    const std::string_view record = rest.substr(digits + 1, size - digits - 2);
    rest.remove_prefix(size);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return corrupt("a pax header is damaged");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key.starts_with("GNU.sparse.")) return corrupt("sparse files are not known");
    if (key == "path") extension.name = value;
    if (key != "size") continue;
    const auto bytes = parse_number<std::int64_t>(value);
    if (!bytes || *bytes < 0 || *bytes > kLargestEntry) return corrupt("the size in a pax header is damaged");
    extension.size = *bytes;
  }
  return {};
}

// GNU's long name (L), or pax records (x) of the next file; others say nothing that is needed.
Status TarReader::extend(Extension& extension, const Header& header) {
  if (header.type != 'L' && header.type != 'x') return pass_over();
  if (header.size > kLargestExtension) return corrupt("a header of more than 1 MiB");
  auto text = read(std::exchange(size_, 0));
  if (!text) return std::unexpected(std::move(text).error());
  if (Status passed = pass_over(); !passed) return passed;
  if (header.type == 'x') return parse_records(extension, *text);
  extension.name = up_to_zero(*text);
  return {};
}

Expected<std::optional<TarEntry>> TarReader::next_entry() {
  Extension extension;
  for (;;) {
    if (Status passed = pass_over(); !passed) return std::unexpected(passed.error());
    auto read = header();
    if (!read) return std::unexpected(std::move(read).error());
    if (!*read) {
      // The checksum of what gzip has compressed stands behind the end of the archive in it.
      if (Status rest = file_.check_rest(); !rest) return std::unexpected(rest.error());
      return std::nullopt;
    }
    Header& header = **read;
    const bool extends = std::string_view("LKxg").find(header.type) != std::string_view::npos;
    if (!extends && extension.size) header.size = *extension.size;
    size_ = has_contents(header.type) ? header.size : 0;
    padding_ = tar_padding(size_);
    if (extends) {
      if (Status extended = extend(extension, header); !extended) return std::unexpected(extended.error());
      continue;
    }
    if (header.type == 'S') return corrupt("sparse files are not known");
    std::string name = std::exchange(extension, {}).name.value_or(std::move(header.name));
    const bool regular =
        header.type == '0' || header.type == '7' || (header.type == 0 && !name.ends_with('/'));
    if (regular) return TarEntry{.name = std::move(name), .size = size_};
  }
}

Expected<std::optional<TarEntry>> TarReader::next() {
  if (ended_) return std::nullopt;
  auto entry = next_entry();
  ended_ = !entry || !*entry;
  return entry;
}

Expected<std::string> TarReader::contents() {
  auto bytes = read(std::exchange(size_, 0));
  ended_ = ended_ || !bytes;
  return bytes;
}

}  // namespace muster
