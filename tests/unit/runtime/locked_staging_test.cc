// The memory for a checkpoint's copy: refused if its pages cannot be made, and locked for a GPU while it
// lives. Three functions of CUDA stand in for the library, which no machine without a GPU loads.
#include <gtest/gtest.h>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/file.h"
#include "runtime/checkpoint/staging.h"

namespace {

std::map<void*, std::size_t> locked;
int answer = 0;
int errors_forgotten = 0;

}  // namespace

extern "C" {
__attribute__((visibility("default"))) int cudaHostRegister(void* address, std::size_t size, unsigned) {
  if (answer == 0) locked[address] = size;
  return answer;
}
__attribute__((visibility("default"))) int cudaHostUnregister(void* address) {
  // Its pages are still there: it is unlocked before it is freed.
  *static_cast<volatile char*>(address) = 1;
  return locked.erase(address) == 1 ? 0 : 1;
}
__attribute__((visibility("default"))) int cudaGetLastError() {
  ++errors_forgotten;
  return 0;
}
}

namespace muster {
namespace {

constexpr std::uint64_t kBytes = 8 << 20;

TEST(LockedStaging, IsLockedUntilItIsFreed) {
  answer = 0;
  auto memory = allocate_staging(kBytes);
  ASSERT_TRUE(memory);
  lock_pages(*memory);
  EXPECT_EQ(locked, (std::map<void*, std::size_t>{{memory->bytes.data(), kBytes}}));
  *memory = {};
  EXPECT_TRUE(locked.empty());
}

TEST(LockedStaging, IsUsedAsItIsWhereItCannotBeLocked) {
  constexpr int kNotEnoughMemory = 2;
  answer = kNotEnoughMemory;
  errors_forgotten = 0;
  auto memory = allocate_staging(kBytes);
  ASSERT_TRUE(memory);
  lock_pages(*memory);
  EXPECT_TRUE(locked.empty());
  EXPECT_EQ(errors_forgotten, 1) << "torch would throw the error at its next call";
  memory->bytes.back() = std::byte{1};
}

// Needs Linux 5.14.
TEST(Staging, IsRefusedWhereItsPagesCannotBeMade) {
  const UniqueFd short_file(memfd_create("short", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(short_file.get(), 4096), 0);
  const auto memory = map_staging(short_file.get(), kBytes);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(memory.error().message(), "no 8388608 bytes of memory for the copy of a checkpoint");
}

}  // namespace
}  // namespace muster
