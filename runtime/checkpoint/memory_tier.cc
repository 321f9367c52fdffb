#include "runtime/checkpoint/memory_tier.h"

#include <algorithm>
#include <atomic>
#include <c10/core/DeviceGuard.h>
#include <cerrno>
#include <cstring>
#include <map>
#include <muster/rank/section.h>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>
#include <type_traits>
#include <unistd.h>

#include "common/base/log.h"
#include "common/wire/digest.h"
#include "runtime/comm/job_state.h"
#include "runtime/comm/nccl/failure.h"
#include "runtime/rank/uncaught.h"

namespace muster {

namespace {

constexpr std::uint64_t kPage = kSlotPage;
constexpr std::uint64_t kChunk = Staging::kChunkBytes;
// At a later save, the text of RankContents can be a little longer. So a slot has this many spare bytes for
// the text.
constexpr std::uint64_t kSpareContents = 64 << 10;
constexpr std::uint64_t kDigestText = 40;  // bytes of a chunk's digest in the contents

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

struct MemoryTier::Found {
  int rank;
  UniqueFd fd;
  SlotHeader header;
};

MemoryTier::MemoryTier(const Job& job, Setting setting)
    : job_(job),
      setting_(std::move(setting)),
      directory_(digest_of(setting_.directory)),
      meeting_(job.store(), job.rank(), job.world_size()),
      agreement_(setting_.check_replicas, setting_.timeout,
                 {.first = state_of(job).world.first_rank_on_node(), .count = job.local_world_size()}) {}

MemoryTier::~MemoryTier() {
  settle();
}

void MemoryTier::settle() {
  if (under_way_ == nullptr) return;
  const auto waiting = section("checkpoint commit");
  const auto ended = std::move(under_way_);
  ended->done.get();
  if (!ended->outcome)
    usable_ = ended->outcome;
  else if (ended->is_save)
    next_ = 1 - next_;
}

// All ranks agree which rank writes which part of the state. Returns the file that this rank writes. Returns
// nothing if this rank no longer saves.
std::optional<RankFile> MemoryTier::agree(const Expected<SavedState>& state, const std::string& meeting_name,
                                          std::uint64_t step) {
  if (is_off_) return std::nullopt;
  settle();
  if (!has_looked_) usable_ = look();
  found_.clear();
  // When all ranks are in this meeting, all of them have completed the previous save. So the slot of the save
  // before that is no longer needed and can be overwritten.
  meeting_.open(meeting_name);
  const Expected<SavedState> mine = usable_ ? state : std::unexpected(usable_.error());
  const auto share = agreement_.agree(meeting_, mine);
  if (!share) {
    is_off_ = true;
    if (job_.rank() == 0)
      log::warning("no checkpoints are held in memory from step {} on: {}; training goes on", step,
                   share.error().message());
    return std::nullopt;
  }
  auto image = without_throwing([&] { return lay_out_rank_file(*mine, *share, job_.rank()); });
  usable_ = image ? without_throwing([&] { return ask_for_slots(image->layout); })
                  : Status(std::unexpected(image.error()));
  return usable_ ? std::optional(*std::move(image)) : std::nullopt;
}

void MemoryTier::prepare(const Expected<SavedState>& state, const std::string& meeting_name,
                         std::uint64_t step) {
  if (!agree(state, meeting_name, step)) return;
  usable_ = without_throwing([&]() -> Status {
    auto task = std::make_unique<Task>(/*is_save=*/false);
    task->done = writer_.submit([this, mine = task.get()] {
      mine->outcome = without_throwing([&]() -> Status {
        Status mapped = map(slots_[0]);
        return mapped ? map(slots_[1]) : mapped;
      });
    });
    under_way_ = std::move(task);
    return {};
  });
}

void MemoryTier::save(const Expected<SavedState>& state, const std::string& meeting_name,
                      std::uint64_t step) {
  auto agreed = agree(state, meeting_name, step);
  if (!agreed) return;
  Slot& slot = slots_[next_];
  usable_ = without_throwing([&]() -> Status {
    if (Status mapped = map(slot); !mapped) return mapped;
    const std::uint64_t file_bytes = agreed->layout.size_bytes;
    const auto staging = std::make_shared<Staging>(slot.memory.bytes.size(), [&slot](std::uint64_t bytes) {
      return Expected<StagingMemory>({.bytes = slot.memory.bytes.first(bytes), .owner = slot.memory.owner});
    });
    if (Status reserved = staging->reserve(file_bytes); !reserved) return reserved;
    auto& written = reinterpret_cast<SlotHeader*>(slot.memory.bytes.last(kPage).data())->state;
    std::atomic_ref(written).store(SlotHeader::kBeingWritten, std::memory_order_seq_cst);
    staging->begin(file_bytes, job_.local_world_size());
    auto task = std::make_unique<Task>(/*is_save=*/true);
    const auto layout = std::make_shared<RankFileLayout>(std::move(agreed->layout));
    task->done = writer_.submit([this, mine = task.get(), layout, staging, &slot, step] {
      mine->outcome = without_throwing([&] { return write(*layout, *staging, slot, step); });
      if (mine->outcome) reports_of(job_).send("held", static_cast<std::int64_t>(step));
      staging->abandon();
    });
    under_way_ = std::move(task);
    Status staged = without_throwing([&]() -> Status {
      stage_rank_file(agreed->source, *staging);
      return {};
    });
    if (!staged) staging->abandon();
    return staged;
  });
}

Status MemoryTier::ask_for_slots(const RankFileLayout& layout) {
  const std::uint64_t data = round_up(layout.size_bytes, kChunk);
  const std::uint64_t contents =
      2 * encode_rank_contents(layout.contents).size() + (data / kChunk) * kDigestText + kSpareContents;
  const std::uint64_t needed = data + round_up(contents, kPage) + kPage;
  if (std::ranges::none_of(slots_, [&](const Slot& slot) { return slot.size_bytes < needed; })) return {};
  auto given = reports_of(job_).memory_slots(needed);
  if (!given) return std::unexpected(given.error());
  std::size_t place = 0;
  for (auto& each : *given) {
    if (each.rank != job_.rank() || place == slots_.size()) continue;
    slots_[place++] = {.fd = std::move(each.fd), .size_bytes = needed, .memory = {}};
  }
  if (place < slots_.size()) return failure(ErrorCode::kUnavailable, "the agent gives too few slots");
  return {};
}

// Maps the slot and allocates all of its pages.
Status MemoryTier::map(Slot& slot) const {
  if (!slot.memory.bytes.empty()) return {};
  auto memory = map_staging(slot.fd.get(), slot.size_bytes);
  if (!memory) return std::unexpected(memory.error());
  slot.memory = *std::move(memory);
  if (job_.device().is_cuda()) {
    // Selects the job's GPU: this function can run on the background thread, where CUDA would use the first
    // GPU.
    const c10::DeviceGuard guard(job_.device());
    lock_pages(slot.memory);
  }
  return {};
}

SlotHeader MemoryTier::header_of(std::uint64_t step, std::uint64_t file_bytes,
                                 std::string_view contents) const {
  SlotHeader header{.attempt = setting_.attempt.value(),
                    .step = step,
                    .rank = job_.rank(),
                    .world_size = job_.world_size(),
                    .directory = directory_,
                    .file_bytes = file_bytes,
                    .contents_at = round_up(file_bytes, kChunk),
                    .contents_bytes = contents.size(),
                    .contents = digest_of(contents),
                    .digest = {}};
  header.digest = header.own_digest();
  return header;
}

// Writes a rank's file into the slot. In the manifest, the slot is a file that consists of whole chunks. The
// chunks after the tensors have no digests, because nobody reads them.
Status MemoryTier::write(RankFileLayout& layout, Staging& staging, Slot& slot, std::uint64_t step) const {
  const auto bytes = slot.memory.bytes;
  const std::uint64_t data = round_up(layout.size_bytes, kChunk);
  ManifestFile file{.name = "slot", .size_bytes = slot.size_bytes};
  file.chunks.resize(round_up(slot.size_bytes, kChunk) / kChunk);
  for (std::uint64_t offset = 0; offset < layout.size_bytes; offset += kChunk) {
    const auto chunk = staging.wait_for_chunk(offset);
    if (chunk.empty()) return failure(ErrorCode::kUnavailable, "the training thread stopped copying");
    if (Status good = check_all_finite(layout, offset, chunk); !good) return good;
    std::memset(chunk.data() + chunk.size(), 0, kChunk - chunk.size());
    file.chunks[offset / kChunk] = digest_of({reinterpret_cast<const char*>(chunk.data()), kChunk});
  }
  if (Status whole = check_groups(); !whole) return whole;
  layout.contents.files = {file};
  const std::string contents = encode_rank_contents(layout.contents);
  if (contents.size() > slot.size_bytes - data - kPage)
    return failure(ErrorCode::kUnavailable, "the slot is too small for {} bytes of contents",
                   contents.size());
  std::memcpy(bytes.data() + data, contents.data(), contents.size());
  const SlotHeader header = header_of(step, layout.size_bytes, contents);
  auto* place = reinterpret_cast<SlotHeader*>(bytes.last(kPage).data());
  std::memcpy(reinterpret_cast<char*>(place) + sizeof header.state,
              reinterpret_cast<const char*>(&header) + sizeof header.state,
              sizeof header - sizeof header.state);
  std::atomic_ref(place->state).store(SlotHeader::kComplete, std::memory_order_release);
  return {};
}

// The agent of this node has memory slots for each rank of the node. Asks the agent for all of these slots. A
// slot holds one checkpoint of a rank. Puts this rank's slots into `slots_`. Puts all slots with a complete
// checkpoint of this job's directory into `found_`.
Status MemoryTier::look() {
  has_looked_ = true;
  found_.clear();
  auto given = reports_of(job_).memory_slots(0);
  if (!given) return std::unexpected(given.error());
  std::size_t place = 0;
  for (auto& each : *given) {
    if (each.rank == job_.rank() && place < slots_.size())
      slots_[place++] = {
          .fd = UniqueFd(dup(each.fd.get())), .size_bytes = slot_bytes(each.fd.get()), .memory = {}};
    const auto header = read_slot_header(each.fd.get());
    if (header && header->rank == each.rank && header->world_size == job_.world_size() &&
        header->directory == directory_)
      found_.push_back({each.rank, std::move(each.fd), *header});
  }
  return {};
}

std::string MemoryTier::tell_held() {
  settle();
  if (const Status looked = look(); !looked) usable_ = looked;
  auto held = nlohmann::json::array();
  for (const Found& each : found_)
    if (each.rank == job_.rank()) held.push_back({each.header.attempt, each.header.step});
  return held.dump();
}

std::vector<CheckpointId> MemoryTier::held_by_all(const std::vector<std::string>& told) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> ranks_with;
  for (const std::string& word : told) {
    const auto held = nlohmann::json::parse(word).get<std::set<std::pair<std::uint64_t, std::uint64_t>>>();
    for (const auto& each : held) ++ranks_with[each];
  }
  std::vector<CheckpointId> ids;
  for (const auto& [each, ranks] : std::views::reverse(ranks_with))
    if (ranks == told.size()) ids.push_back({.step = each.second, .attempt = Attempt(each.first)});
  return ids;
}

Expected<std::pair<std::string, CheckpointManifest>> MemoryTier::find(CheckpointId id) const {
  CheckpointManifest manifest{.id = id, .job = job_.job_id(), .world_size = job_.world_size()};
  const int first = state_of(job_).world.first_rank_on_node();
  for (int rank = first; rank < first + job_.local_world_size(); ++rank) {
    const std::string whose = fmt::format("what rank {} holds in memory", rank);
    const auto found = std::ranges::find_if(
        found_, [&](const Found& each) { return each.rank == rank && each.header.id() == id; });
    if (found == found_.end()) return failure(ErrorCode::kNotFound, "{} is not there", whose);
    auto contents = read_slot_contents(found->fd.get(), found->header);
    if (!contents) return std::unexpected(contents.error());
    contents->files.front().name = std::to_string(found->fd.get());
    if (Status added = add_rank(manifest, rank, *std::move(contents)); !added)
      return failure_within(whose, std::move(added));
  }
  if (Status good = check_manifest(manifest); !good) return std::unexpected(good.error());
  return std::pair(std::string("/proc/self/fd"), std::move(manifest));
}

std::optional<std::size_t> MemoryTier::slot_with(CheckpointId id) const {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const auto header = read_slot_header(slots_[i].fd.get());
    if (header && header->id() == id) return i;
  }
  return std::nullopt;
}

void MemoryTier::keep(CheckpointId id) {
  if (const auto slot = slot_with(id)) next_ = 1 - *slot;
  reports_of(job_).send("held", static_cast<std::int64_t>(id.step));
}

void MemoryTier::discard(CheckpointId id) {
  const auto slot = slot_with(id);
  if (!slot) return;
  constexpr std::uint64_t kState = SlotHeader::kBeingWritten;
  const Slot& mine = slots_[*slot];
  if (pwrite(mine.fd.get(), &kState, sizeof kState, static_cast<off_t>(mine.size_bytes - kPage)) < 0)
    log::warning("rank {} cannot discard what it holds in memory: {}", job_.rank(), std::strerror(errno));
}

}  // namespace muster
