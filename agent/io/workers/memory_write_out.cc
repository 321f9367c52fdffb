#include "agent/io/workers/memory_write_out.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <set>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/quiet_thread.h"
#include "common/checkpoint/directory.h"
#include "common/checkpoint/memory_slot.h"

namespace muster::agent {

namespace {

constexpr Duration kWriteLimit = std::chrono::seconds(30);
constexpr std::uint64_t kMostContents = 1 << 30;

struct Held {
  int fd;
  SlotHeader header;
};

// Two attempts can save the same step. So the name contains the attempt, and two attempts never write to the
// same file.
std::string path_of_contents(const std::string& directory, int rank, Attempt held) {
  return fmt::format("{}/rank-{:05}.attempt-{}.contents", directory, rank, held);
}

class WriteOut {
 public:
  explicit WriteOut(const HeldMemory& memory) : memory_(memory), directory_(memory.directory) {}

  // Writes the files of this node's ranks to disk. The agent of rank 0 then commits a step, and returns the
  // step that is now on disk. Returns nothing if this is the agent of another rank, or if the disk already
  // has a checkpoint of this step or a later one.
  Expected<std::optional<std::uint64_t>> run() {
    const auto found = newer_than_disk();
    if (!found) return std::unexpected(found.error());
    for (const CheckpointId& id : *found) {
      step_ = id.step;
      if (Status written = write(id); !written) return std::unexpected(written.error());
    }
    if (found->empty() || memory_.first_rank != Rank(0)) return std::nullopt;
    return commit_newest(*found);
  }
  std::uint64_t step() const { return step_; }

 private:
  // Returns checkpoints that all ranks of this node have in memory, and that are newer than those on disk.
  // The newest one comes first.
  Expected<std::vector<CheckpointId>> newer_than_disk() {
    std::vector<CheckpointId> ids;
    for (const UniqueFd& fd : memory_.slots) {
      const auto header = read_slot_header(fd.get());
      if (!header || header->world_size != memory_.world_size ||
          header->directory != digest_of(memory_.directory))
        continue;
      held_.push_back({fd.get(), *header});
      if (Rank(header->rank) == memory_.first_rank) ids.push_back(header->id());
    }
    std::erase_if(ids, [this](CheckpointId id) {
      return std::ranges::count(held_, id, [](const Held& each) { return each.header.id(); }) !=
             memory_.local_world_size;
    });
    if (ids.empty()) return ids;
    // The step is set before the directory is checked. If a check fails, write_out() reports that this step
    // is lost.
    step_ = std::ranges::min_element(ids, is_newer)->step;
    if (Status mine = directory_.check_newest(memory_.attempt); !mine) return std::unexpected(mine.error());
    const auto entries = directory_.candidates(memory_.attempt);
    if (!entries) return std::unexpected(entries.error());
    const auto on_disk = std::ranges::find_if(*entries, [](const auto& entry) { return !entry.damage; });
    std::erase_if(ids, [&](CheckpointId id) {
      return on_disk != entries->end() && (id.step <= on_disk->id.step || id.attempt < on_disk->id.attempt);
    });
    std::ranges::sort(ids, is_newer);
    std::set<std::uint64_t> steps;  // keeps one attempt per step, because each rank has one file per step
    std::erase_if(ids, [&steps](CheckpointId id) { return !steps.insert(id.step).second; });
    return ids;
  }

  // Returns the id of the checkpoint on disk. It has the number of the newest attempt, because later attempts
  // look for checkpoints of that attempt (CheckpointDirectory::candidates()).
  CheckpointId as_written(CheckpointId id) const { return {.step = id.step, .attempt = memory_.attempt}; }

  Status write(CheckpointId id) {
    const std::string directory = directory_.path_of(as_written(id));
    // Does not make the directory above. If that one is gone, a new one would lack the attempt files.
    std::error_code error;
    std::filesystem::create_directory(directory, error);
    if (error) return system_failure("cannot create directory " + directory, error.value());
    if (Status synced = sync_directory(directory_.path()); !synced) return synced;
    for (const Held& each : held_) {
      if (each.header.id() != id) continue;
      if (Status written = write_rank(each, directory); !written) return written;
    }
    return sync_directory(directory);
  }

  Status write_rank(const Held& held, const std::string& directory) {
    auto contents = read_slot_contents(held.fd, held.header);
    if (!contents) return std::unexpected(contents.error());
    const std::vector<Digest128> digests = std::move(contents->files[0].chunks);
    ManifestFile& file = contents->files[0];
    file = {.name = rank_file_name(held.header.rank), .size_bytes = held.header.file_bytes};
    const std::string path = directory + "/" + file.name;
    const std::string unfinished = path + ".new";
    const UniqueFd to(open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!to) return system_failure("cannot create " + unfinished, errno);
    std::string chunk;
    for (std::uint64_t offset = 0; offset < file.size_bytes; offset += kChunkBytes) {
      if (Clock::now() >= write_until_) return failure(ErrorCode::kTimedOut, "the disk is too slow");
      const Status read = read_slot_chunk(held.fd, held.header, digests, offset, chunk);
      if (!read) return read;
      const std::string_view part =
          std::string_view(chunk).substr(0, std::min(kChunkBytes, file.size_bytes - offset));
      file.chunks.push_back(digest_of(part));
      if (Status written = write_all(to.get(), part, unfinished); !written) return written;
    }
    if (fsync(to.get()) != 0) return system_failure("cannot sync " + unfinished, errno);
    if (rename(unfinished.c_str(), path.c_str()) != 0)
      return system_failure("cannot rename " + unfinished, errno);
    return write_file_durably(path_of_contents(directory, held.header.rank, held.header.id().attempt),
                              encode_rank_contents(*contents));
  }

  bool has_contents(CheckpointId id, int rank) const {
    std::error_code error;  // ignored, because the file system may be unavailable for a while
    return std::filesystem::exists(path_of_contents(directory_.path_of(as_written(id)), rank, id.attempt),
                                   error);
  }
  std::vector<int> missing(CheckpointId id) const {
    std::vector<int> ranks;
    for (int rank = 0; rank < memory_.world_size; ++rank)
      if (!has_contents(id, rank)) ranks.push_back(rank);
    return ranks;
  }

  // Waits until the files of all ranks are there for one step, and commits this step. Begins with the newest
  // step. Each agent writes its newest step first. So if a rank has written an older step but not a newer
  // one, the newer one will not come.
  Expected<std::optional<std::uint64_t>> commit_newest(const std::vector<CheckpointId>& ids) {
    const TimePoint until = Clock::now() + memory_.patience;
    for (std::size_t i = 0;;) {
      const std::vector<int> lacking = missing(ids[i]);
      step_ = ids[i].step;
      if (lacking.empty()) {
        if (Status committed = commit(ids[i]); !committed) return std::unexpected(committed.error());
        return ids[i].step;
      }
      const bool hopeless = i + 1 < ids.size() && std::ranges::any_of(lacking, [&](int rank) {
                              return has_contents(ids[i + 1], rank);
                            });
      if (hopeless)
        ++i;
      else if (Clock::now() >= until)
        return failure(ErrorCode::kTimedOut, "{} of {} ranks have not written their part", lacking.size(),
                       memory_.world_size);
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  Status commit(CheckpointId held) {
    const CheckpointId id = as_written(held);
    const std::string directory = directory_.path_of(id);
    CheckpointManifest manifest{.id = id,
                                .job = memory_.job,
                                .world_size = memory_.world_size,
                                .files = {},
                                .written_at = unix_ns() / 1'000'000'000};
    for (int rank = 0; rank < memory_.world_size; ++rank) {
      auto text = read_file(path_of_contents(directory, rank, held.attempt), kMostContents);
      if (!text) return std::unexpected(text.error());
      auto contents = parse_rank_contents(*text);
      if (!contents) return std::unexpected(contents.error());
      drop_known(contents->shared, manifest.shared);
      if (Status added = add_rank(manifest, rank, *std::move(contents)); !added) return added;
    }
    if (Status good = check_manifest(manifest); !good) return good;
    if (Status mine = directory_.check_newest(memory_.attempt); !mine) return mine;
    if (Status done = write_file_durably(directory_.manifest_path(id), encode_manifest(manifest)); !done)
      return done;
    if (Status synced = sync_directory(directory_.path()); !synced) return synced;
    for (int rank = 0; rank < memory_.world_size; ++rank)
      std::remove(path_of_contents(directory, rank, held.attempt).c_str());
    return directory_.check_newest(memory_.attempt);
  }

  // Removes the values and parts that lower ranks also have. `known` has the contents of those ranks.
  static void drop_known(Contents& contents, const Contents& known) {
    std::erase_if(contents.values, [&](const auto& value) { return known.values.contains(value.first); });
    for (auto& [name, tensor] : contents.tensors) {
      const auto there = known.tensors.find(name);
      if (there == known.tensors.end()) continue;
      std::erase_if(tensor.parts, [&](const StoredPart& part) {
        const auto& parts = there->second.parts;
        return std::ranges::find(parts, part.slice, &StoredPart::slice) != parts.end();
      });
    }
    std::erase_if(contents.tensors, [](const auto& tensor) { return tensor.second.parts.empty(); });
  }

  const HeldMemory& memory_;
  const CheckpointDirectory directory_;
  const TimePoint write_until_ = Clock::now() + kWriteLimit;
  std::vector<Held> held_;
  std::uint64_t step_ = 0;
};

}  // namespace

MemoryWritten write_out(const HeldMemory& held) {
  WriteOut work(held);
  const auto lost = [&](std::string_view why) {
    return MemoryWritten{fmt::format("step {}, which was held in memory, is lost: {}", work.step(), why)};
  };
  try {
    const auto done = work.run();
    if (!done) return lost(done.error().message());
    if (!*done) return {};
    return {
        fmt::format("step {}, which was held in memory, is a checkpoint in {} now", **done, held.directory),
        **done};
  } catch (const std::exception& error) {  // memory has run out, or std::filesystem has thrown
    return lost(error.what());
  }
}

void MemoryWriteOut::start(HeldMemory held, std::function<void(MemoryWritten)> done) {
  if (held.slots.empty() || held.directory.empty()) return done({});
  const auto shared = std::make_shared<HeldMemory>(std::move(held));
  try {
    thread_ = start_quiet_thread("muster-memory", [shared, done](const std::stop_token&) {
      MemoryWritten written = write_out(*shared);
      if (!written.told.empty()) log::info("{}", written.told);
      done(std::move(written));
    });
  } catch (const std::system_error& error) {
    done({fmt::format("what is held in memory is lost: {}", error.what())});
  }
}

}  // namespace muster::agent
