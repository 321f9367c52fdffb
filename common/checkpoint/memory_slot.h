// A slot is memory that an agent owns. It holds the file of one rank of a checkpoint, with the same layout as
// on disk.
//
// The parts of a slot are, in this order: the file, padded to a whole chunk; the text of a RankContents
// (manifest.h) with this one file; and SlotHeader, in the last page. The runtime writes a slot. The agent and
// the ranks of the next attempt read it, and need only its file descriptor for that. The functions can be
// called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"

namespace muster {

inline constexpr std::uint64_t kSlotPage = 4096;

struct SlotHeader {
  // The writer sets the state last. So if the writer was killed, the state still says that the slot is
  // unfinished.
  enum State : std::uint64_t { kBeingWritten = 0, kComplete = 0x6574656c706d6f63 };
  static constexpr std::uint64_t kMagic = 0x3274'6f6c'7372'6d6d;

  std::uint64_t state = kBeingWritten;
  std::uint64_t magic = kMagic;
  std::uint64_t attempt = 0;
  std::uint64_t step = 0;
  std::int32_t rank = 0;
  std::int32_t world_size = 0;
  Digest128 directory;  // of the checkpoint directory's name
  std::uint64_t file_bytes = 0;
  std::uint64_t contents_at = 0;
  std::uint64_t contents_bytes = 0;
  Digest128 contents;
  Digest128 digest;  // of all fields above except `state`

  Digest128 own_digest() const;
  CheckpointId id() const { return {.step = step, .attempt = Attempt(attempt)}; }
};

// Returns 0 if the size cannot be read.
std::uint64_t slot_bytes(int fd);
// Reads `count` bytes of the slot, beginning at `offset`. Returns kInternal if the slot has fewer bytes.
Status read_slot(int fd, std::uint64_t offset, char* to, std::uint64_t count);
// Returns the header of the slot. If the slot is not complete, returns nothing.
std::optional<SlotHeader> read_slot_header(int fd);
// Returns the RankContents that the slot contains. Returns kCorrupt if they are damaged.
Expected<RankContents> read_slot_contents(int fd, const SlotHeader& header);
// Reads the chunk that begins at `offset` in the rank's file. `digests` has a digest for each chunk of the
// file. Returns kCorrupt if the chunk does not match its digest.
Status read_slot_chunk(int fd, const SlotHeader& header, const std::vector<Digest128>& digests,
                       std::uint64_t offset, std::string& chunk);
// Reads everything that the header describes. Returns kCorrupt if some of it is damaged. Calls `stop` before
// each chunk. If `stop` returns true, gives up and returns kUnavailable.
Status verify_slot(int fd, const SlotHeader& header, const std::function<bool()>& stop);

}  // namespace muster
