#include "common/checkpoint/memory_slot.h"

#include <algorithm>
#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

namespace muster {

namespace {

constexpr std::uint64_t kMostContents = 1 << 30;

}  // namespace

Digest128 SlotHeader::own_digest() const {
  const auto* begin = reinterpret_cast<const char*>(this) + sizeof state;
  return digest_of({begin, offsetof(SlotHeader, digest) - sizeof state});
}

std::uint64_t slot_bytes(int fd) {
  struct stat status{};
  return fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

Status read_slot(int fd, std::uint64_t offset, char* to, std::uint64_t count) {
  for (std::uint64_t done = 0; done < count;) {
    const ssize_t got = pread(fd, to + done, count - done, static_cast<off_t>(offset + done));
    if (got <= 0) return system_failure("cannot read what is held in memory", got < 0 ? errno : EIO);
    done += static_cast<std::uint64_t>(got);
  }
  return {};
}

std::optional<SlotHeader> read_slot_header(int fd) {
  SlotHeader header;
  const std::uint64_t size = slot_bytes(fd);
  if (size < kSlotPage || !read_slot(fd, size - kSlotPage, reinterpret_cast<char*>(&header), sizeof header) ||
      header.state != SlotHeader::kComplete || header.magic != SlotHeader::kMagic ||
      header.digest != header.own_digest())
    return std::nullopt;
  return header;
}

Expected<RankContents> read_slot_contents(int fd, const SlotHeader& header) {
  const std::string whose = fmt::format("what rank {} holds in memory", header.rank);
  std::string text(std::min(header.contents_bytes, kMostContents), '\0');
  if (Status read = read_slot(fd, header.contents_at, text.data(), text.size()); !read)
    return std::unexpected(read.error());
  if (digest_of(text) != header.contents) return failure(ErrorCode::kCorrupt, "{} is damaged", whose);
  auto contents = parse_rank_contents(text);
  if (!contents) return failure_within(whose, std::move(contents));
  const std::uint64_t chunks = (header.file_bytes + kChunkBytes - 1) / kChunkBytes;
  if (contents->files.size() != 1 || contents->files[0].chunk_bytes != kChunkBytes ||
      contents->files[0].chunks.size() < chunks)
    return failure(ErrorCode::kCorrupt, "{} is not in a slot's format", whose);
  return contents;
}

Status read_slot_chunk(int fd, const SlotHeader& header, const std::vector<Digest128>& digests,
                       std::uint64_t offset, std::string& chunk) {
  chunk.resize(kChunkBytes);  // the digests cover whole chunks, with the padding
  if (Status read = read_slot(fd, offset, chunk.data(), kChunkBytes); !read) return read;
  if (digest_of(chunk) != digests[offset / kChunkBytes])
    return failure(ErrorCode::kCorrupt, "what rank {} holds in memory is damaged", header.rank);
  return {};
}

Status verify_slot(int fd, const SlotHeader& header, const std::function<bool()>& stop) {
  const auto contents = read_slot_contents(fd, header);
  if (!contents) return std::unexpected(contents.error());
  std::string chunk;
  for (std::uint64_t offset = 0; offset < header.file_bytes; offset += kChunkBytes) {
    if (stop()) return failure(ErrorCode::kUnavailable, "it is no longer needed");
    const Status read = read_slot_chunk(fd, header, contents->files[0].chunks, offset, chunk);
    if (!read) return read;
  }
  return {};
}

}  // namespace muster
