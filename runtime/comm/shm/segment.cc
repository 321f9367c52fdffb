#include "runtime/comm/shm/segment.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/check.h"

namespace muster::shm {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t paged(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

// Names the host and the process namespace. Processes with the same text see each other in /proc.
std::string place_of_processes() {
  auto boot = read_file("/proc/sys/kernel/random/boot_id", 100);
  struct stat space{};
  const bool seen = stat("/proc/self/ns/pid", &space) == 0;
  std::string id = boot ? boot->substr(0, boot->find('\n')) : std::string("unknown");
  return fmt::format("{}/{}", id, seen ? static_cast<std::uint64_t>(space.st_ino) : 0);
}

}  // namespace

Segment::Segment(UniqueFd fd, int ranks) : fd_(std::move(fd)), ranks_(ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  const std::size_t share = kPipesBytes / std::max<std::size_t>(count - 1, 1);
  pipe_bytes_ = std::clamp(std::bit_floor(share), std::size_t{64} << 10, std::size_t{1} << 20);
  states_at_ = 0;
  pipes_at_ = paged(states_at_ + count * sizeof(RankState));
  buffers_at_ = paged(pipes_at_ + count * count * sizeof(Pipe));
  sums_at_ = buffers_at_ + count * kBuffers * kBufferBytes;
  memories_at_ = sums_at_ + count * kSumBuffers * kSumBytes;
  bytes_ = memories_at_ + count * count * pipe_bytes_;
}

Segment::Segment(Segment&& other) noexcept
    : fd_(std::move(other.fd_)),
      ranks_(other.ranks_),
      pipe_bytes_(other.pipe_bytes_),
      states_at_(other.states_at_),
      pipes_at_(other.pipes_at_),
      buffers_at_(other.buffers_at_),
      sums_at_(other.sums_at_),
      memories_at_(other.memories_at_),
      bytes_(other.bytes_),
      memory_(std::exchange(other.memory_, nullptr)) {}

Segment::~Segment() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

Status Segment::map() {
  void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (memory == MAP_FAILED) return system_failure("cannot map shared memory", errno);
  memory_ = static_cast<std::byte*>(memory);
  return {};
}

Expected<Segment> Segment::create(int ranks) {
  CHECK(ranks >= 1 && ranks <= kMostRanks, "{} ranks", ranks);
  Segment made(UniqueFd(memfd_create("muster-shm", MFD_CLOEXEC)), ranks);
  if (!made.fd_) return system_failure("cannot make shared memory", errno);
  // The new memory is filled with zeros. This is the right initial value of every field.
  if (ftruncate(made.fd_.get(), static_cast<off_t>(made.bytes_)) != 0)
    return system_failure("cannot make shared memory", errno);
  if (Status mapped = made.map(); !mapped) return std::unexpected(mapped.error());
  return made;
}

std::string Segment::address() const {
  return address_of(fd_.get());
}

Expected<Segment> Segment::open(const std::string& address, int ranks) {
  auto fd = open_address(address);
  if (!fd) return std::unexpected(fd.error());
  Segment opened(*std::move(fd), ranks);
  struct stat there{};
  if (fstat(opened.fd_.get(), &there) != 0 || static_cast<std::size_t>(there.st_size) != opened.bytes_)
    return failure(ErrorCode::kCorrupt, "{} is not the shared memory of {} ranks", address, ranks);
  if (Status mapped = opened.map(); !mapped) return std::unexpected(mapped.error());
  return opened;
}

RankState& Segment::state(int rank) const {
  return reinterpret_cast<RankState*>(memory_ + states_at_)[rank];
}
Pipe& Segment::pipe(int from, int to) const {
  return reinterpret_cast<Pipe*>(memory_ + pipes_at_)[from * ranks_ + to];
}
std::byte* Segment::pipe_memory(int from, int to) const {
  return memory_ + memories_at_ + static_cast<std::size_t>(from * ranks_ + to) * pipe_bytes_;
}
std::byte* Segment::buffer(int rank, std::uint64_t piece) const {
  return memory_ + buffers_at_ +
         (static_cast<std::size_t>(rank) * kBuffers + piece % kBuffers) * kBufferBytes;
}
std::byte* Segment::sum_buffer(int rank, std::uint64_t piece) const {
  return memory_ + sums_at_ +
         (static_cast<std::size_t>(rank) * kSumBuffers + piece % kSumBuffers) * kSumBytes;
}

void Segment::announce(int rank, int to) const {
  // A thread that is about to sleep has a fence, too. The two fences ensure that this rank sees that the
  // thread sleeps, or that the thread sees what this rank has written.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  RankState& other = state(to);
  if ((other.sleeps_for.load(std::memory_order_relaxed) & (std::uint64_t{1} << (rank % 64))) != 0)
    wake(other.bell);
}

void Segment::announce(int rank) const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::uint64_t bit = std::uint64_t{1} << (rank % 64);
  for (int to = 0; to < ranks_; ++to)
    if ((state(to).sleeps_for.load(std::memory_order_relaxed) & bit) != 0) wake(state(to).bell);
}

std::string address_of(int fd) {
  return fmt::format("{} {} {}", place_of_processes(), getpid(), fd);
}

Expected<UniqueFd> open_address(const std::string& address) {
  const std::size_t space = address.find(' ');
  long pid = 0;
  int fd = -1;
  if (space == std::string::npos || std::sscanf(address.c_str() + space, "%ld %d", &pid, &fd) != 2)
    return failure(ErrorCode::kCorrupt, "'{}' is not an address of shared memory", address);
  if (address.substr(0, space) != place_of_processes())
    return failure(ErrorCode::kInvalidArgument, "it is on another host, or in a container of its own");
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
  UniqueFd opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!opened) return system_failure("cannot open " + path, errno);
  return opened;
}

void sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds limit) {
  const timespec time{.tv_sec = limit.count() / 1'000'000'000, .tv_nsec = limit.count() % 1'000'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake(std::atomic<std::uint32_t>& word) {
  word.fetch_add(1);
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace muster::shm
