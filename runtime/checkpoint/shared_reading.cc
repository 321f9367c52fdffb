#include "runtime/checkpoint/shared_reading.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/copy_past_caches.h"
#include "common/base/quiet_thread.h"
#include "common/checkpoint/direct_file.h"
#include "common/wire/digest.h"
#include "runtime/comm/shm/segment.h"

namespace muster {

namespace {

constexpr std::size_t kSlots = 12;
constexpr std::size_t kChunksAtOnce = 8;  // read at the same time, by all members together
constexpr std::uint64_t kMostSlotBytes = 4 << 20;
constexpr std::uint64_t kLeastShared = 64 << 20;
constexpr std::uint64_t kBoardUnit = 2 << 20;  // so that the slots behind the board can have huge pages
constexpr std::uint64_t kSlotUnit = 4096;
constexpr std::size_t kMostMembers = 64;
constexpr std::chrono::milliseconds kLookAround{100};

std::uint64_t slot_bytes_for(std::span<const ManifestFile> files) {
  std::uint64_t most = 0;
  for (const ManifestFile& file : files) most = std::max(most, DirectFile::direct_bytes(file));
  return (most + kSlotUnit - 1) / kSlotUnit * kSlotUnit;
}

}  // namespace

struct alignas(64) SharedReading::Slot {
  std::atomic<std::uint32_t> filled;    // how many times the slot was filled
  std::atomic<std::uint32_t> freed;     // how many times all members had copied its chunk
  std::atomic<std::uint32_t> to_copy;   // how many members still have to copy its chunk
  std::atomic<std::uint32_t> verified;  // 0: the chunk is bad, and each member that needs it reads it itself
};

// The Board is at the beginning of the shared memory. After it come 64 bits for each chunk, one for each
// member. A member's bit is set if the member needs the chunk. Then comes the memory of the slots. At first,
// all of the shared memory is zero.
struct SharedReading::Board {
  std::atomic<std::uint64_t> next_turn;  // the first turn that no member has taken
  Slot slots[kSlots];
};

// Goes through all chunks that this member needs, in their order. It must not leave out any of them: a slot
// is freed only when all members that need its chunk have copied the chunk.
class SharedReading::Cursor {
 public:
  explicit Cursor(SharedReading& reading) : reading_(reading) {}
  ~Cursor() { go_to(reading_.first_chunks_.back()); }

  // Returns the bytes of the chunk in shared memory. Returns null if the member that filled the slot found
  // the chunk damaged, or if the chunk is not in its slot. Then this member must read the chunk from the file
  // itself.
  const std::byte* bytes_of(std::size_t chunk) {
    go_to(chunk);
    const bool is_here =
        has_come_ && reading_.order_[turn_] == chunk && reading_.slot_of(turn_).verified != 0;
    return is_here ? reading_.memory_of(turn_) : nullptr;
  }

 private:
  void go_to(std::size_t chunk) {
    while (turn_ < reading_.order_.size() && reading_.order_[turn_] < chunk) {
      if (is_needed()) {
        come();
        leave();
      }
      ++turn_;
    }
    if (turn_ < reading_.order_.size() && is_needed()) come();
  }
  bool is_needed() const { return (reading_.needed_by(reading_.order_[turn_]) & reading_.member_) != 0; }
  void come() {
    if (!has_come_) has_come_ = reading_.wait_for(reading_.slot_of(turn_).filled, turn_ / kSlots + 1);
  }
  void leave() {
    Slot& slot = reading_.slot_of(turn_);
    if (std::exchange(has_come_, false) && slot.to_copy.fetch_sub(1) == 1) shm::wake(slot.freed);
  }

  SharedReading& reading_;
  std::size_t turn_ = 0;
  bool has_come_ = false;  // the chunk of this turn is in its slot, and this member has not left it
};

bool SharedReading::is_worth_it(std::span<const ManifestFile> files, std::size_t members) {
  std::uint64_t bytes = 0;
  for (const ManifestFile& file : files) bytes += file.size_bytes;
  return members > 1 && members <= kMostMembers && bytes >= kLeastShared &&
         slot_bytes_for(files) <= kMostSlotBytes;
}

SharedReading::SharedReading(std::span<const ManifestFile> files, std::size_t member, std::size_t members)
    : files_(files),
      member_(std::uint64_t{1} << member),
      members_(members),
      slot_bytes_(slot_bytes_for(files)) {
  CHECK(member < members && members <= kMostMembers, "{} of {}", member, members);
  std::size_t chunks = 0;
  for (const ManifestFile& file : files) {
    first_chunks_.push_back(chunks);
    chunks += file.chunks.size();
  }
  first_chunks_.push_back(chunks);
}

std::uint64_t SharedReading::board_bytes() const {
  const std::uint64_t bytes = sizeof(Board) + first_chunks_.back() * sizeof(std::uint64_t);
  return (bytes + kBoardUnit - 1) / kBoardUnit * kBoardUnit;
}

Status SharedReading::map() {
  auto memory = map_staging(fd_.get(), board_bytes() + kSlots * slot_bytes_);
  if (!memory) return std::unexpected(memory.error());
  memory_ = *std::move(memory);
  return {};
}

Expected<std::unique_ptr<SharedReading>> SharedReading::create(std::span<const ManifestFile> files,
                                                               std::size_t members) {
  auto made = std::unique_ptr<SharedReading>(new SharedReading(files, 0, members));
  made->fd_.reset(memfd_create("muster-reading", MFD_CLOEXEC));
  const std::uint64_t bytes = made->board_bytes() + kSlots * made->slot_bytes_;
  if (!made->fd_ || ftruncate(made->fd_.get(), static_cast<off_t>(bytes)) != 0)
    return system_failure("cannot make shared memory", errno);
  if (Status mapped = made->map(); !mapped) return std::unexpected(mapped.error());
  return made;
}

Expected<std::unique_ptr<SharedReading>> SharedReading::open(const std::string& address,
                                                             std::span<const ManifestFile> files,
                                                             std::size_t member, std::size_t members) {
  auto opened = std::unique_ptr<SharedReading>(new SharedReading(files, member, members));
  auto fd = shm::open_address(address);
  if (!fd) return std::unexpected(fd.error());
  opened->fd_ = *std::move(fd);
  struct stat status{};
  if (fstat(opened->fd_.get(), &status) != 0 ||
      static_cast<std::uint64_t>(status.st_size) != opened->board_bytes() + kSlots * opened->slot_bytes_)
    return failure(ErrorCode::kCorrupt, "{} does not have the size of the memory of {} members", address,
                   members);
  if (Status mapped = opened->map(); !mapped) return std::unexpected(mapped.error());
  return opened;
}

std::string SharedReading::address() const {
  return shm::address_of(fd_.get());
}

SharedReading::Board& SharedReading::board() const {
  return *reinterpret_cast<Board*>(memory_.bytes.data());
}
SharedReading::Slot& SharedReading::slot_of(std::size_t turn) const {
  return board().slots[turn % kSlots];
}
std::byte* SharedReading::memory_of(std::size_t turn) const {
  return memory_.bytes.data() + board_bytes() + turn % kSlots * slot_bytes_;
}
std::atomic<std::uint64_t>& SharedReading::needed_by(std::size_t chunk) const {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(memory_.bytes.data() + sizeof(Board))[chunk];
}
std::size_t SharedReading::chunk_at(std::uint32_t file, std::uint64_t offset) const {
  return first_chunks_[file] + offset / files_[file].chunk_bytes;
}

void SharedReading::announce(std::span<const PartRequest> requests) {
  for (const PartRequest& request : requests) {
    for_each_run(request.copy, [&](std::uint64_t from, std::uint64_t, std::uint64_t count) {
      const std::size_t last = chunk_at(request.copy.file, from + count - 1);
      for (std::size_t chunk = chunk_at(request.copy.file, from); chunk <= last; ++chunk)
        if ((needed_by(chunk) & member_) == 0) needed_by(chunk) |= member_;
      return true;
    });
  }
}

void SharedReading::watch(std::span<const pid_t> processes) {
  for (const pid_t process : processes)
    if (UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, process, 0))); fd)
      processes_.push_back(std::move(fd));
}

bool SharedReading::has_one_ended() const {
  return std::ranges::any_of(processes_, [](const UniqueFd& process) {
    pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
    return poll(&ended, 1, 0) > 0;
  });
}

// Waits until `count` is at least `wanted`. Returns false if this takes too long, or if another member has
// ended.
bool SharedReading::wait_for(const std::atomic<std::uint32_t>& count, std::size_t wanted) {
  for (const TimePoint end = Clock::now() + kPatience; !has_given_up_;) {
    const std::uint32_t seen = count;
    if (static_cast<std::int32_t>(seen - static_cast<std::uint32_t>(wanted)) >= 0) return true;
    if (has_one_ended() || Clock::now() >= end)
      has_given_up_ = true;
    else
      shm::sleep_on(count, seen, kLookAround);
  }
  return false;
}

void SharedReading::read_chunks(const std::string& directory) {
  std::uint32_t number = 0;
  std::optional<Expected<DirectFile>> file;
  for (std::size_t turn = board().next_turn++; turn < order_.size(); turn = board().next_turn++) {
    const std::size_t chunk = order_[turn];
    const auto in = static_cast<std::uint32_t>(std::ranges::upper_bound(first_chunks_, chunk) -
                                               first_chunks_.begin() - 1);
    if (!file || in != number) file.emplace(DirectFile::open(directory + "/" + files_[in].name, files_[in]));
    number = in;
    Slot& slot = slot_of(turn);
    if (!wait_for(slot.freed, turn / kSlots)) return;
    const std::uint64_t place = chunk - first_chunks_[in];
    const std::uint64_t size = chunk_end(files_[in], place) - place * files_[in].chunk_bytes;
    auto* const bytes = reinterpret_cast<char*>(memory_of(turn));
    slot.verified =
        *file && (*file)->read_chunk(place, bytes) && digest_of({bytes, size}) == files_[in].chunks[place];
    slot.to_copy = static_cast<std::uint32_t>(std::popcount(needed_by(chunk).load()));
    shm::wake(slot.filled);
  }
}

Status SharedReading::read(const std::string& directory, std::vector<PartRequest> requests) {
  for (std::size_t chunk = 0; chunk < first_chunks_.back(); ++chunk)
    if (needed_by(chunk) != 0) order_.push_back(chunk);
  std::ranges::sort(requests, {}, [](const PartRequest& request) {
    return std::pair(request.copy.file, request.copy.file_begin);
  });
  std::vector<PartRequest> rest;
  {
    std::vector<std::jthread> readers;
    for (std::size_t i = 0; i < (kChunksAtOnce + members_ - 1) / members_; ++i) {
      try {
        readers.push_back(
            start_quiet_thread("muster-read", [&](const std::stop_token&) { read_chunks(directory); }));
      } catch (const std::system_error&) {
        break;  // other threads or members read all chunks
      }
    }
    Cursor cursor(*this);
    for (PartRequest& request : requests) {
      const ManifestFile& file = files_[request.copy.file];
      const auto copy = [&](std::uint64_t from, std::uint64_t to, std::uint64_t count) {
        while (count > 0) {
          const std::uint64_t in_chunk = from % file.chunk_bytes;
          const std::uint64_t here = std::min(count, file.chunk_bytes - in_chunk);
          const std::byte* const bytes = cursor.bytes_of(chunk_at(request.copy.file, from));
          if (bytes == nullptr) return false;
          copy_past_caches(request.target + to, bytes + in_chunk, here);
          from += here;
          to += here;
          count -= here;
        }
        return true;
      };
      if (!for_each_run(request.copy, copy)) rest.push_back(std::move(request));
    }
  }
  return read_parts(directory, files_, std::move(rest), kChunksAtOnce / 2);
}

}  // namespace muster
