#include "runtime/checkpoint/staging.h"

#include <algorithm>
#include <cerrno>
#include <dlfcn.h>
#include <functional>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/machine.h"

namespace muster {

namespace {

constexpr std::uint64_t kHugePage = 2 << 20;
// Memory is filled one room at a time; a room is a part of the memory. If the taking thread has a core of its
// own, it takes one room while the next room is filled. In this case, this is the largest size of a room.
// Otherwise the whole file is one room.
constexpr std::uint64_t kRoomBytesBeside = 64 << 20;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, which headers before Linux 6.1 do not have

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::unexpected<Error> no_memory(std::uint64_t size_bytes) {
  return failure(ErrorCode::kUnavailable, "no {} bytes of memory for the copy of a checkpoint", size_bytes);
}

Expected<StagingMemory> mapped(void* address, std::uint64_t size_bytes) {
  if (address == MAP_FAILED) return no_memory(size_bytes);
  return StagingMemory{
      .bytes = {static_cast<std::byte*>(address), size_bytes},
      .owner = std::shared_ptr<void>(address, [size_bytes](void* at) { munmap(at, size_bytes); })};
}

// Gives a file in memory huge pages if the kernel can make them, even if the setting shmem_enabled is off.
// The kernel makes memory of huge pages ten times as fast as memory of small pages. Both kinds are read
// equally fast.
//
// MADV_COLLAPSE makes a huge page only where there already is a small one. So this function first makes the
// small page, by MADV_POPULATE_READ. If the page cannot be made, madvise() returns an error. Reading a byte
// would also make the page, but would raise SIGBUS if that fails.
void make_huge_pages(std::span<std::byte> bytes) {
  for (std::uint64_t begin = 0; begin + kHugePage <= bytes.size(); begin += kHugePage) {
    if (madvise(&bytes[begin], 1, MADV_POPULATE_READ) != 0 ||
        madvise(&bytes[begin], kHugePage, kCollapse) != 0)
      return;
  }
}

// Allocates all pages of the memory now. Kernels before 5.14 cannot do this and return EINVAL. With such a
// kernel, each page is allocated when it is first touched.
Expected<StagingMemory> populated(StagingMemory memory) {
  if (madvise(memory.bytes.data(), memory.bytes.size(), MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
    return no_memory(memory.bytes.size());
  return memory;
}

}  // namespace

Expected<StagingMemory> allocate_staging(std::uint64_t size_bytes) {
  auto memory = mapped(mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                       size_bytes);
  if (!memory) return memory;
  madvise(memory->bytes.data(), size_bytes, MADV_HUGEPAGE);
  return populated(*std::move(memory));
}

// The mapping begins at a multiple of a huge page's size, so that it can have huge pages.
Expected<StagingMemory> map_staging(int fd, std::uint64_t size_bytes) {
  const std::uint64_t reserved = size_bytes + kHugePage;
  void* const place = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  auto memory = mapped(place, reserved);
  if (!memory) return memory;
  const std::uint64_t begin =
      rounded_up(reinterpret_cast<std::uint64_t>(place), kHugePage) - reinterpret_cast<std::uint64_t>(place);
  memory->bytes = memory->bytes.subspan(begin, size_bytes);
  if (mmap(memory->bytes.data(), size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
      MAP_FAILED)
    return system_failure("cannot map the memory of a checkpoint", errno);
  make_huge_pages(memory->bytes);
  return populated(*std::move(memory));
}

// Locks the pages with CUDA's functions, which return 0 on success. These functions are in the CUDA library
// that torch has loaded. If torch has loaded no CUDA library, this function does nothing.
void lock_pages(StagingMemory& memory) {
  using Register = int(void* address, std::size_t size_bytes, unsigned flags);
  using Unregister = int(void* address);
  constexpr unsigned kOfEveryDevice = 1;  // cudaHostRegisterPortable
  auto* const lock = reinterpret_cast<Register*>(dlsym(RTLD_DEFAULT, "cudaHostRegister"));
  auto* const unlock = reinterpret_cast<Unregister*>(dlsym(RTLD_DEFAULT, "cudaHostUnregister"));
  auto* const forget_error = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "cudaGetLastError"));
  if (lock == nullptr || unlock == nullptr || forget_error == nullptr) return;
  void* const begin = memory.bytes.data();
  if (lock(begin, memory.bytes.size(), kOfEveryDevice) != 0) {
    (void)forget_error();  // else torch would take the error for one of its own
    return;
  }
  memory.owner =
      std::shared_ptr<void>(begin, [unlock, owner = std::move(memory.owner)](void* at) { (void)unlock(at); });
}

Staging::Staging(std::uint64_t limit_bytes, Allocate allocate)
    : limit_bytes_(std::max(limit_bytes / kChunkBytes, std::uint64_t{2}) * kChunkBytes),
      allocate_(std::move(allocate)) {}

Status Staging::reserve(std::uint64_t file_bytes) {
  const std::uint64_t wanted = std::min(limit_bytes_, rounded_up(file_bytes, kChunkBytes));
  if (wanted <= capacity()) return {};
  memory_ = {};  // frees the old memory before the new memory is allocated
  auto memory = allocate_(wanted);
  if (!memory) return std::unexpected(memory.error());
  memory_ = *std::move(memory);
  return {};
}

void Staging::begin(std::uint64_t file_bytes, int ranks) {
  CHECK(capacity() >= std::min(limit_bytes_, file_bytes));
  const std::lock_guard lock(mutex_);
  file_bytes_ = file_bytes;
  most_room_bytes_ = count_cores() > ranks ? kRoomBytesBeside : file_bytes;
  filled_ = released_ = 0;
  abandoned_ = false;
  waited_ = {};
}

Staging::Room Staging::wait_for_room() {
  std::unique_lock lock(mutex_);
  // Waits until a quarter of the memory is free. If the rest of the file is smaller than that, waits until
  // the rest fits. A room below a quarter of the memory would be too small for many cores to copy into it at
  // the same time.
  const std::uint64_t left = file_bytes_ - filled_;
  const std::uint64_t least = std::min(left, std::max(kChunkBytes, capacity() / 4));
  const auto has_room = [&] { return abandoned_ || released_ + capacity() - filled_ >= least; };
  if (!has_room()) {
    const TimePoint before = Clock::now();
    changed_.wait(lock, has_room);
    waited_ += Clock::now() - before;
  }
  if (abandoned_ || left == 0) return {};
  const std::uint64_t begin = filled_ % capacity();
  const std::uint64_t size =
      std::min({left, released_ + capacity() - filled_, capacity() - begin, most_room_bytes_});
  return {.offset = filled_, .bytes = memory_.bytes.subspan(begin, size)};
}

void Staging::fill(std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  filled_ += count;
  changed_.notify_all();
}

std::span<std::byte> Staging::wait_for_chunk(std::uint64_t offset) {
  std::unique_lock lock(mutex_);
  const std::uint64_t end = std::min(offset + kChunkBytes, file_bytes_);
  changed_.wait(lock, [&] { return abandoned_ || filled_ >= end; });
  if (abandoned_) return {};
  return memory_.bytes.subspan(offset % capacity(), end - offset);
}

void Staging::release(std::uint64_t end) {
  const std::lock_guard lock(mutex_);
  released_ = end;
  changed_.notify_all();
}

void Staging::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  changed_.notify_all();
}

}  // namespace muster
