#include "runtime/data/datasets/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "common/base/text.h"
#include "runtime/data/datasets/file_kind.h"

namespace muster {

namespace {

constexpr std::size_t kTarBlock = 512;
constexpr std::int64_t kLargestEntry = std::int64_t{1} << 50;
constexpr std::int64_t kLargestExtension = 1 << 20;  // of a long name, or of pax records
constexpr std::int64_t kMostHoleBytes = 256 << 20;   // of one file

using TarBlock = std::array<char, kTarBlock>;

std::string_view header_field(const TarBlock& block, std::size_t at, std::size_t size) {
  return std::string_view(block.data(), block.size()).substr(at, size);
}

std::string_view up_to_zero(std::string_view text) {
  return text.substr(0, text.find('\0'));
}

// Reads a number in a header. It consists of octal digits, with spaces or NUL bytes around them. Large
// numbers can have GNU's binary form. Then the highest bit of the first byte is set.
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

// Returns whether the checksum of a header is right. It is the sum of all bytes of the header, in which the
// checksum itself is replaced by spaces. Some old programs added signed bytes, so their sum is accepted, too.
bool has_right_sum(const TarBlock& block) {
  constexpr std::size_t kAt = 148, kSize = 8;
  const auto said = number_in_field(header_field(block, kAt, kSize));
  if (!said) return false;
  std::uint32_t sum = 0, negative = 0;
  for (const char byte : block) {
    sum += static_cast<unsigned char>(byte);
    negative += static_cast<unsigned char>(byte) >> 7;
  }
  for (const char byte : header_field(block, kAt, kSize)) {
    sum += static_cast<unsigned char>(' ') - static_cast<unsigned char>(byte);
    negative -= static_cast<unsigned char>(byte) >> 7;
  }
  return *said == sum || *said == std::int64_t{sum} - 256 * std::int64_t{negative};
}

bool is_zero_block(const TarBlock& block) {
  return std::ranges::all_of(block, [](char byte) { return byte == 0; });
}

// Links, directories and devices have no contents, even if their size is not 0.
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
  TarBlock block;
};

Status TarReader::check_archive(const std::string& path) {
  return check_is_file_of(path, {FileKind::kTar, FileKind::kGzip, FileKind::kZstd});
}

Expected<TarReader> TarReader::open(const std::string& path) {
  if (Status usable = check_archive(path); !usable) return std::unexpected(usable.error());
  auto file = CompressedFile::open(path);
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

// The archive stores the pieces one after the other. Reads them and puts zeros into the holes.
Expected<std::string> TarReader::read_sparse(const SparseMap& sparse) {
  std::string whole;
  for (const auto& piece : sparse.pieces) {
    whole.resize(static_cast<std::size_t>(piece.begin), '\0');
    auto bytes = read(piece.size);
    if (!bytes) return bytes;
    whole += *bytes;
  }
  whole.resize(static_cast<std::size_t>(sparse.size), '\0');
  return whole;
}

Status TarReader::check_sparse(const SparseMap& sparse, const std::string& name) const {
  std::int64_t end = 0, stored = 0;
  for (const auto& [begin, size] : sparse.pieces) {
    // These checks also ensure that `begin + size` does not overflow.
    if (begin < end || begin > sparse.size || size < 0 || size > sparse.size - begin)
      return corrupt(fmt::format("the map of the sparse file {} is damaged", one_line(name)));
    end = begin + size;
    stored += size;
  }
  if (stored != size_)
    return corrupt(fmt::format("the map of the sparse file {} has {} bytes, and its contents have {}",
                               one_line(name), stored, size_));
  if (sparse.size - stored > kMostHoleBytes)
    return corrupt(
        fmt::format("the sparse file {} has {} bytes of holes, and at most {} can be read: "
                    "write the archive without --sparse",
                    one_line(name), sparse.size - stored, kMostHoleBytes));
  return {};
}

// Reads the map of a sparse file, as GNU tar writes it. Up to four of the file's pieces are in the header.
// Each block after the header has up to 21 more.
Status TarReader::read_gnu_map(const Header& header, const std::string& name) {
  const auto damaged = [&] {
    return corrupt(fmt::format("the map of the sparse file {} is damaged", one_line(name)));
  };
  SparseMap& sparse = sparse_.emplace();
  const auto add = [&sparse](const TarBlock& block, std::size_t at, int count) {
    for (; count > 0 && block[at + 12] != '\0'; --count, at += 24) {
      const auto begin = number_in_field(header_field(block, at, 12)),
                 size = number_in_field(header_field(block, at + 12, 12));
      if (!begin || !size) return false;
      sparse.pieces.push_back({.begin = *begin, .size = *size});
    }
    return true;
  };
  const auto size = number_in_field(header_field(header.block, 483, 12));
  if (!size || *size > kLargestEntry || !add(header.block, 386, 4)) return damaged();
  sparse.size = *size;
  bool more = header.block[482] != 0;
  while (more) {
    TarBlock block{};
    const auto got = file_.read(block.data(), block.size());
    if (!got) return std::unexpected(got.error());
    if (*got < block.size()) return corrupt("it is cut off");
    if (!add(block, 0, 21)) return damaged();
    more = block[504] != 0;
  }
  return {};
}

// Reads the map of a sparse file, as pax writes it. The map is a text in front of the file's contents. It is
// padded to whole blocks. Each line of the text has one number. The first number is the number of pieces.
// Then come the beginning and the size of each piece.
Status TarReader::read_pax_map(SparseMap& sparse, const std::string& name) {
  const auto damaged = [&] {
    return corrupt(fmt::format("the map of the sparse file {} is damaged", one_line(name)));
  };
  std::string lines;
  std::size_t used = 0;
  const auto number = [&]() -> Expected<std::int64_t> {
    std::size_t end = lines.find('\n', used);
    while (end == std::string::npos) {
      constexpr std::size_t kMostDigits = 20;
      if (size_ < static_cast<std::int64_t>(kTarBlock) || lines.size() - used > kMostDigits) return damaged();
      auto block = read(kTarBlock);
      if (!block) return std::unexpected(std::move(block).error());
      size_ -= kTarBlock;
      lines.erase(0, std::exchange(used, 0));
      lines += *block;
      end = lines.find('\n');
    }
    const auto value = parse_number<std::int64_t>(std::string_view(lines).substr(used, end - used));
    if (!value || *value < 0) return damaged();
    used = end + 1;
    return *value;
  };
  const auto count = number();
  if (!count) return std::unexpected(count.error());
  for (std::int64_t i = 0; i < *count; ++i) {
    const auto begin = number();
    if (!begin) return std::unexpected(begin.error());
    const auto size = number();
    if (!size) return std::unexpected(size.error());
    sparse.pieces.push_back({.begin = *begin, .size = *size});
  }
  return {};
}

Status TarReader::pass_over() {
  sparse_.reset();
  if (const std::int64_t size = std::exchange(size_, 0); size > 0) {
    if (Status passed = file_.skip(size - 1); !passed) return passed;
    char last = 0;  // reads the last byte, because seeking beyond the end of a plain file does not fail
    const auto got = file_.read(&last, 1);
    if (!got) return std::unexpected(got.error());
    if (*got == 0) return corrupt("it is cut off");
  }
  return file_.skip(std::exchange(padding_, 0));
}

// Returns the next header. Returns nothing at the block of zeros that ends the archive, or at the end
// of the file.
Expected<std::optional<TarReader::Header>> TarReader::header() {
  TarBlock block{};
  const auto got = file_.read(block.data(), block.size());
  if (!got) return std::unexpected(got.error());
  lacks_end_ = *got == 0 && has_begun_;
  if (lacks_end_) return std::nullopt;
  if (*got < block.size())
    return corrupt(*got == 0    ? "it is empty"
                   : has_begun_ ? "it is cut off"
                                : "it is not a tar archive, or is cut off");
  has_begun_ = true;
  if (is_zero_block(block)) return std::nullopt;
  if (!has_right_sum(block)) return corrupt("it is not a tar archive, or one of its headers is damaged");
  Header header{
      .name = std::string(up_to_zero(header_field(block, 0, 100))), .type = block[156], .block = block};
  const std::string_view prefix = up_to_zero(header_field(block, 345, 155));
  if (header_field(block, 257, 6) == std::string_view("ustar\0", 6) && !prefix.empty())
    header.name = std::string(prefix) + "/" + header.name;
  const auto size = number_in_field(header_field(block, 124, 12));
  if (!size || *size > kLargestEntry)
    return corrupt(fmt::format("the size of {} is damaged", one_line(header.name)));
  header.size = *size;
  return header;
}

// Reads records such as "27 path=images/000001.jpg\n". The number says how many bytes the whole record has,
// including the number.
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
    if (key.starts_with("GNU.sparse.")) {
      if (Status parsed = parse_sparse(extension, key.substr(11), value); !parsed) return parsed;
    }
    if (key == "path") extension.name = value;
    if (key != "size") continue;
    const auto bytes = parse_number<std::int64_t>(value);
    if (!bytes || *bytes < 0 || *bytes > kLargestEntry) return corrupt("the size in a pax header is damaged");
    extension.size = *bytes;
  }
  return {};
}

// Reads a record of a pax header about a sparse file. The map of the file has one of three forms: several
// records (0.0), one record (0.1), or lines before the contents (1.0).
Status TarReader::parse_sparse(Extension& extension, std::string_view key, std::string_view value) const {
  const auto damaged = corrupt("the map of a sparse file in a pax header is damaged");
  if (!extension.sparse) extension.sparse.emplace();
  SparseMap& sparse = *extension.sparse;
  if (key == "name") {
    extension.sparse_name = value;
    return {};
  }
  if (key == "map") {
    sparse.pieces.clear();
    const auto numbers = split(value, ',');
    for (std::size_t i = 0; !value.empty() && i < numbers.size(); i += 2) {
      const auto begin = parse_number<std::int64_t>(numbers[i]);
      const auto size = i + 1 < numbers.size() ? parse_number<std::int64_t>(numbers[i + 1]) : std::nullopt;
      if (!begin || !size) return damaged;
      sparse.pieces.push_back({.begin = *begin, .size = *size});
    }
    return {};
  }
  const auto number = parse_number<std::int64_t>(value);
  if (!number || *number < 0 || *number > kLargestEntry) return damaged;
  if (key == "size" || key == "realsize") sparse.size = *number;
  if (key == "offset") sparse.pieces.push_back({.begin = *number, .size = 0});
  if (key == "numbytes") {
    if (sparse.pieces.empty()) return damaged;
    sparse.pieces.back().size = *number;
  }
  if (key == "major") extension.map_is_in_contents = *number == 1;
  if ((key == "major" && *number > 1) || (key == "minor" && *number > 1))
    return corrupt(fmt::format("a sparse file has an unknown form, GNU.sparse.{}={}", key, *number));
  return {};
}

// Reads GNU's long name (L) or the pax records (x) of the next file. Skips other extensions.
Status TarReader::extend(Extension& extension, const Header& header) {
  if (header.type != 'L' && header.type != 'x') return pass_over();
  if (header.size > kLargestExtension) return corrupt("a header has more than 1 MiB");
  auto text = read(std::exchange(size_, 0));
  if (!text) return std::unexpected(std::move(text).error());
  if (Status passed = pass_over(); !passed) return passed;
  if (header.type == 'x') return parse_records(extension, *text);
  extension.name = up_to_zero(*text);
  return {};
}

// A header, or an extension before it, can say that the file is sparse. Then this function reads the map of
// the file and checks it.
Status TarReader::map_sparse(Extension& extension, Header& header, const std::string& name) {
  if (header.type == 'S') {
    if (Status read = read_gnu_map(header, name); !read) return read;
  } else if (extension.sparse && has_contents(header.type)) {
    sparse_ = std::move(extension.sparse);
    if (extension.map_is_in_contents) {
      if (Status read = read_pax_map(*sparse_, name); !read) return read;
    }
  }
  return sparse_ ? check_sparse(*sparse_, name) : Status();
}

Expected<std::optional<TarEntry>> TarReader::next_entry() {
  Extension extension;
  bool has_extension = false;
  for (;;) {
    if (Status passed = pass_over(); !passed) return std::unexpected(passed.error());
    auto read = header();
    if (!read) return std::unexpected(std::move(read).error());
    if (!*read) {
      if (has_extension && lacks_end_) return corrupt("it is cut off");
      // Reads the file to its end, because gzip puts its checksum after the end of the archive.
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
      has_extension = true;
      continue;
    }
    Extension its = std::exchange(extension, {});
    has_extension = false;
    std::string name = its.sparse_name ? *std::move(its.sparse_name)
                       : its.name      ? *std::move(its.name)
                                       : std::move(header.name);
    if (Status mapped = map_sparse(its, header, name); !mapped) return std::unexpected(mapped.error());
    const bool regular =
        std::string_view("07S").contains(header.type) || (header.type == 0 && !name.ends_with('/'));
    if (regular) return TarEntry{.name = std::move(name), .size = sparse_ ? sparse_->size : size_};
  }
}

Expected<std::optional<TarEntry>> TarReader::next() {
  if (ended_) return std::nullopt;
  auto entry = next_entry();
  ended_ = !entry || !*entry;
  return entry;
}

Expected<std::string> TarReader::contents() {
  const std::int64_t size = std::exchange(size_, 0);
  const auto sparse = std::exchange(sparse_, std::nullopt);
  auto bytes = sparse ? read_sparse(*sparse) : read(size);
  ended_ = ended_ || !bytes;
  return bytes;
}

}  // namespace muster
