// Any bytes as a ZIP archive, such as numpy's .npz: files that were read, written uncompressed and read again
// must be the same.
#include "runtime/data/datasets/zip.h"

#include <algorithm>
#include <vector>
#include <zlib.h>

#include "common/base/check.h"
#include "tests/fuzz/input.h"

namespace muster {
namespace {

struct File {
  std::string name;
  std::string contents;
  bool operator==(const File&) const = default;
};

// Returns nothing if one of the files cannot be read.
std::optional<std::vector<File>> read_all(std::string_view bytes) {
  const auto entries = zip_entries(bytes);
  if (!entries) {
    check_refusal(entries.error());
    return std::nullopt;
  }
  std::vector<File> files;
  std::size_t packed = 0;
  for (const ZipEntry& entry : *entries) {
    packed += entry.packed.size();
    CHECK(packed <= bytes.size() && entry.size / 1032 <= entry.packed.size());
    std::string unpacked;
    const auto contents = zip_contents(entry, unpacked);
    if (!contents) {
      check_refusal(contents.error());
      return std::nullopt;
    }
    CHECK(contents->size() == entry.size);
    files.push_back({.name = entry.name, .contents = std::string(*contents)});
  }
  return files;
}

template <class Number>
void put(std::string& to, std::initializer_list<Number> numbers) {
  for (const Number number : numbers) to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string written(const std::vector<File>& files) {
  std::string archive, directory;
  for (const File& file : files) {
    std::string header;
    put<std::uint16_t>(header, {20, 0, 0, 0, 0});
    put(header,
        {static_cast<std::uint32_t>(
             crc32_z(0, reinterpret_cast<const Bytef*>(file.contents.data()), file.contents.size())),
         static_cast<std::uint32_t>(file.contents.size()), static_cast<std::uint32_t>(file.contents.size())});
    put<std::uint16_t>(header, {static_cast<std::uint16_t>(file.name.size()), 0});
    directory += "PK\x01\x02" + std::string(2, '\0') + header + std::string(10, '\0');
    put(directory, {static_cast<std::uint32_t>(archive.size())});
    directory += file.name;
    archive += "PK\x03\x04" + header + file.name + file.contents;
  }
  const auto begin = static_cast<std::uint32_t>(archive.size());
  archive += directory + "PK\x05\x06" + std::string(4, '\0');
  put(archive, {static_cast<std::uint16_t>(files.size()), static_cast<std::uint16_t>(files.size())});
  put(archive, {static_cast<std::uint32_t>(directory.size()), begin});
  return archive + std::string(2, '\0');
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  const auto files = read_all(input.rest());
  if (!files) return 0;
  CHECK(read_all(written(*files)) == files, "{} files", files->size());
  return 0;
}
