#include "runtime/data/datasets/zip.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <new>
#include <optional>
#include <zlib.h>

#include "common/base/text.h"
#include "runtime/data/datasets/number_at.h"

namespace muster {

namespace {

// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
constexpr std::string_view kZipEnd = "PK\x05\x06", kZip64Locator = "PK\x06\x07", kZip64End = "PK\x06\x06",
                           kZipDirectoryEntry = "PK\x01\x02", kZipLocalHeader = "PK\x03\x04";
constexpr std::size_t kZipEndBytes = 22, kZip64LocatorBytes = 20, kZip64EndBytes = 56,
                      kZipDirectoryEntryBytes = 46, kZipLocalHeaderBytes = 30;
constexpr std::size_t kLongestZipComment = 0xffff;
constexpr std::uint16_t kZip64Field = 1;
constexpr std::uint64_t kMostInflation = 1032;  // deflate packs at most this many bytes into one byte

std::unexpected<Error> damaged_zip(std::string_view what) {
  return failure(ErrorCode::kCorrupt, "its ZIP archive is damaged: {}", what);
}

// Returns the part of the archive that begins at `at`. Returns nothing if this part has fewer than `size`
// bytes, or if it does not begin with `signature`.
std::optional<std::string_view> zip_record(std::string_view archive, std::uint64_t at, std::size_t size,
                                           std::string_view signature) {
  if (at > archive.size() || archive.size() - at < size) return std::nullopt;
  const std::string_view record = archive.substr(at);
  if (!record.starts_with(signature)) return std::nullopt;
  return record;
}

struct ZipDirectory {
  std::uint64_t count = 0;
  std::uint64_t begin = 0;
};

Expected<ZipDirectory> zip_directory(std::string_view archive) {
  const std::size_t looked = std::min(archive.size(), kZipEndBytes + kLongestZipComment),
                    before = archive.size() - looked, found = archive.substr(before).rfind(kZipEnd),
                    at = found == std::string_view::npos ? archive.size() : before + found;
  const auto end = zip_record(archive, at, kZipEndBytes, kZipEnd);
  if (!end) return damaged_zip("its end is missing; it may have been cut off");
  if (at >= kZip64LocatorBytes) {
    const std::size_t locator = at - kZip64LocatorBytes;
    if (archive.substr(locator).starts_with(kZip64Locator)) {
      const auto end64 =
          zip_record(archive, number_at<std::uint64_t>(archive, locator + 8), kZip64EndBytes, kZip64End);
      if (!end64) return damaged_zip("its end is not where it says");
      return ZipDirectory{.count = number_at<std::uint64_t>(*end64, 32),
                          .begin = number_at<std::uint64_t>(*end64, 48)};
    }
  }
  return ZipDirectory{.count = number_at<std::uint16_t>(*end, 10),
                      .begin = number_at<std::uint32_t>(*end, 16)};
}

// Headers have fields of 32 bits for sizes and offsets. In a large archive, a value may need more bits. Then
// all bits of its field are set, and the value is in the ZIP64 field. The ZIP64 field has only such values,
// one after the other. This function puts these values into `numbers`. Returns false if the field does not
// have all of them.
bool read_zip64(std::string_view fields, std::initializer_list<std::uint64_t*> numbers) {
  const auto is_marked = [](const std::uint64_t* number) {
    return *number == std::numeric_limits<std::uint32_t>::max();
  };
  if (std::ranges::none_of(numbers, is_marked)) return true;
  while (fields.size() >= 4) {
    const auto id = number_at<std::uint16_t>(fields, 0);
    std::string_view field = fields.substr(4, number_at<std::uint16_t>(fields, 2));
    if (id == kZip64Field) {
      for (std::uint64_t* const number : numbers) {
        if (!is_marked(number)) continue;
        if (field.size() < 8) return false;
        *number = number_at<std::uint64_t>(field, 0);
        field.remove_prefix(8);
      }
      return true;
    }
    fields.remove_prefix(4 + field.size());
  }
  return false;
}

// `record` is the rest of the archive's directory. This function reads the first entry in it, and removes
// that entry from `record`.
Expected<ZipEntry> next_zip_entry(std::string_view archive, std::string_view& record) {
  const std::size_t name_bytes = number_at<std::uint16_t>(record, 28),
                    field_bytes = number_at<std::uint16_t>(record, 30),
                    comment_bytes = number_at<std::uint16_t>(record, 32);
  if (record.size() - kZipDirectoryEntryBytes < name_bytes + field_bytes + comment_bytes)
    return damaged_zip("its directory is cut off");
  ZipEntry entry{.name = std::string(record.substr(kZipDirectoryEntryBytes, name_bytes)),
                 .packed = {},
                 .size = number_at<std::uint32_t>(record, 24),
                 .checksum = number_at<std::uint32_t>(record, 16),
                 .is_deflated = number_at<std::uint16_t>(record, 10) == Z_DEFLATED};
  const auto refused = [&entry](std::string_view why) {
    return failure(ErrorCode::kCorrupt, "{} in its ZIP archive {}", one_line(entry.name), why);
  };
  std::uint64_t packed_bytes = number_at<std::uint32_t>(record, 20),
                header_at = number_at<std::uint32_t>(record, 42);
  if (!read_zip64(record.substr(kZipDirectoryEntryBytes + name_bytes, field_bytes),
                  {&entry.size, &packed_bytes, &header_at}))
    return refused("has no ZIP64 field for its size");
  if ((number_at<std::uint16_t>(record, 8) & 1) != 0) return refused("is encrypted");
  if (const auto method = number_at<std::uint16_t>(record, 10); method != 0 && method != Z_DEFLATED)
    return refused(
        fmt::format("is packed by method {}; only 0 (stored) and 8 (deflated) are supported", method));
  const auto header = zip_record(archive, header_at, kZipLocalHeaderBytes, kZipLocalHeader);
  if (!header) return refused("is not where its directory says");
  const std::size_t data_at =
      kZipLocalHeaderBytes + number_at<std::uint16_t>(*header, 26) + number_at<std::uint16_t>(*header, 28);
  if (data_at > header->size() || header->size() - data_at < packed_bytes) return refused("is cut off");
  entry.packed = header->substr(data_at, packed_bytes);
  const bool is_possible =
      entry.is_deflated ? entry.size / kMostInflation <= packed_bytes : entry.size == packed_bytes;
  if (!is_possible)
    return refused(fmt::format("has {} packed bytes, which cannot give {} bytes", packed_bytes, entry.size));
  record.remove_prefix(kZipDirectoryEntryBytes + name_bytes + field_bytes + comment_bytes);
  return entry;
}

// Inflates `packed` into `to`. Returns true if all of `packed` was used and gave exactly `size` bytes.
bool inflate_all(std::string_view packed, std::string& to, std::size_t size) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));  // NOLINT: C's interface
  std::size_t unread = packed.size(), had = 0;
  int code = Z_OK;
  to.resize_and_overwrite(size, [&](char* begin, std::size_t) {
    while (code == Z_OK) {
      const std::size_t in = std::min(unread, kMost), out = std::min(size - had, kMost);
      stream.avail_in = static_cast<uInt>(in);
      stream.next_out = reinterpret_cast<Bytef*>(begin + had);
      stream.avail_out = static_cast<uInt>(out);
      code = inflate(&stream, Z_NO_FLUSH);
      unread -= in - stream.avail_in;
      had += out - stream.avail_out;
    }
    return had;
  });
  inflateEnd(&stream);
  return code == Z_STREAM_END && unread == 0 && had == size;
}

}  // namespace

Expected<std::vector<ZipEntry>> zip_entries(std::string_view archive) {
  const auto directory = zip_directory(archive);
  if (!directory) return std::unexpected(directory.error());
  if (directory->begin > archive.size()) return damaged_zip("its directory is not where it says");
  std::string_view record = archive.substr(directory->begin);
  std::vector<ZipEntry> entries;
  std::uint64_t packed_bytes = 0;
  for (std::uint64_t i = 0; i < directory->count; ++i) {
    if (record.size() < kZipDirectoryEntryBytes || !record.starts_with(kZipDirectoryEntry))
      return damaged_zip(fmt::format("its directory has {} of {} files", i, directory->count));
    auto entry = next_zip_entry(archive, record);
    if (!entry) return std::unexpected(std::move(entry).error());
    packed_bytes += entry->packed.size();
    if (packed_bytes > archive.size()) return damaged_zip("its files overlap");
    entries.push_back(*std::move(entry));
  }
  if (!record.starts_with(kZipEnd) && !record.starts_with(kZip64End))
    return damaged_zip(fmt::format("its directory has more than {} files", directory->count));
  return entries;
}

Expected<std::string_view> zip_contents(const ZipEntry& entry, std::string& unpacked) {
  const auto refused = [&entry](std::string_view why) {
    return failure(ErrorCode::kCorrupt, "{} in its ZIP archive is damaged: {}", one_line(entry.name), why);
  };
  std::string_view contents = entry.packed;
  if (entry.is_deflated) {
    if (!inflate_all(entry.packed, unpacked, static_cast<std::size_t>(entry.size)))
      return refused("it cannot be decompressed");
    contents = unpacked;
  }
  const uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(contents.data()), contents.size());
  if (sum != entry.checksum) return refused("its checksum is wrong");
  return contents;
}

}  // namespace muster
