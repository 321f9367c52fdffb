// Any bytes as a tar archive, plain or compressed: files that were read, written by ustar's rules and read
// again must be the same, and skipping contents must give the same names.
#include "runtime/data/datasets/tar.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "common/base/check.h"
#include "runtime/data/datasets/file_kind.h"
#include "tests/fuzz/input.h"

namespace muster {
namespace {

constexpr std::int64_t kLargestRead = 4 << 20;

struct File {
  std::string name;
  std::string contents;
  bool operator==(const File&) const = default;
};
struct Read {
  std::vector<File> files;
  bool whole = false;
};

// Writes the fuzzer's input to a file in memory, since the reader opens files.
std::optional<TarReader> opened(std::string_view bytes) {
  static const int file = memfd_create("tar", MFD_CLOEXEC);
  CHECK(ftruncate(file, 0) == 0 &&
        pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  auto reader = TarReader::open("/proc/self/fd/" + std::to_string(file));
  if (reader) return *std::move(reader);
  check_refusal(reader.error());
  return std::nullopt;
}

// Reads the contents of every `step`th file.
Read read_all(std::string_view bytes, std::size_t step) {
  std::optional<TarReader> reader = opened(bytes);
  Read read;
  while (reader) {
    auto entry = reader->next();
    if (!entry) check_refusal(entry.error());
    if (!entry || !*entry) {
      read.whole = entry.has_value();
      CHECK(reader->next().value() == std::nullopt, "a file follows the end");
      return read;
    }
    File file{.name = (**entry).name, .contents = {}};
    // Holes are large and cheap; reading several is too slow.
    if (read.files.size() % step == 0 && (**entry).size <= kLargestRead) {
      auto contents = reader->contents();
      if (!contents) {
        check_refusal(contents.error());
        return read;
      }
      CHECK(std::ssize(*contents) == (**entry).size);
      file.contents = *std::move(contents);
    }
    read.files.push_back(std::move(file));
  }
  return read;
}

void add_block(std::string& to, const std::string& name, char type, std::string_view contents) {
  std::string header(512, '\0');
  const auto put = [&header](std::size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  put(0, name.substr(0, 100));
  put(124, fmt::format("{:011o}", contents.size()));
  put(148, "        ");
  header[156] = type;
  put(257, std::string("ustar\0"
                       "00",
                       8));
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(148, fmt::format("{:06o}", sum) + '\0');
  to += header;
  to += contents;
  to.resize((to.size() + 511) / 512 * 512, '\0');
}

bool has_sparse(std::string_view bytes) {
  for (std::size_t type = 156; type < bytes.size(); type += 512)
    if (bytes[type] == 'S') return true;
  return bytes.contains("GNU.sparse.");
}

std::string written(const std::vector<File>& files) {
  std::string bytes;
  for (const File& file : files) {
    if (file.name.size() > 100) add_block(bytes, "././@LongLink", 'L', file.name + '\0');
    add_block(bytes, file.name, '0', file.contents);
  }
  return bytes.append(1024, '\0');
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  const std::string_view bytes = input.rest();
  const Read read = read_all(bytes, 1);
  std::size_t contents = 0;
  for (const File& file : read.files) contents += file.contents.size();
  const auto kind = file_kind(std::as_bytes(std::span(bytes)), bytes.size());
  const bool is_plain = kind != FileKind::kGzip && kind != FileKind::kZstd;
  CHECK(!is_plain || has_sparse(bytes) || contents <= bytes.size(), "{} bytes of contents", contents);
  if (!read.whole) return 0;
  const Read again = read_all(written(read.files), 1);
  // A name in a pax header may be empty, or contain a zero byte, which ends any other name.
  const bool plain = std::ranges::all_of(read.files, [](const File& file) {
    return !file.name.empty() && file.name.find('\0') == std::string::npos;
  });
  CHECK(again.whole && (!plain || again.files == read.files), "{} files, not {}", again.files.size(),
        read.files.size());
  const Read passed = read_all(bytes, 3);
  CHECK(passed.whole && passed.files.size() == read.files.size());
  for (std::size_t i = 0; i < read.files.size(); ++i) CHECK(passed.files[i].name == read.files[i].name);
  return 0;
}
