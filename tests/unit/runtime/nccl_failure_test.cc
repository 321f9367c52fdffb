#include "runtime/comm/nccl_failure.h"

#include <gmock/gmock.h>
#include <muster/muster.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "runtime/comm/nccl.h"
#include "tests/require.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// In the place of NCCL's.
struct StandIn : c10d::Backend {
  StandIn(int rank, std::uint64_t entered) : Backend(rank, 3), entered_(entered) {}
  const std::string getBackendName() const override { return "nccl"; }
  c10d::ErrorType getError() override { return error; }
  std::uint64_t getSequenceNumberForGroup() override { return entered_; }

  c10d::ErrorType error = c10d::ErrorType::SUCCESS;

 private:
  std::uint64_t entered_;
};

c10::intrusive_ptr<c10d::ProcessGroup> group_of(const Job& job, const c10::intrusive_ptr<StandIn>& backend) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(job.store(), backend->getRank(), 3);
  group->setBackend(c10::kCUDA, c10d::ProcessGroup::BackendType::NCCL, backend);
  return group;
}

TEST(Nccl, SaysWhoHasNotComeToACollectiveThatHasNotEndedInTime) {
  spawn(
      [](Job& job) {
        const NcclGroup group{.store = job.store(), .ranks = {4, 5, 7}, .name = "big"};
        require_equal(describe_absent(group, {{}, {}, {}}), std::string(), "nobody says anything");
        require_equal(describe_absent(group, {{3}, {3}, {3}}), std::string(), "all are there");
        require_equal(describe_absent(group, {{41}, {40}, {39}}),
                      std::string("ranks 5, 7 have not come to its collective 41"), "two are behind");
        const auto mine = c10::make_intrusive<StandIn>(0, 41);
        const auto peers = c10::make_intrusive<StandIn>(1, 40);  // as if in another process
        for (const auto& [backend, place] : {std::pair(mine, 0), {peers, 1}}) {
          NcclGroup watched = group;
          watched.backend = c10::weak_intrusive_ptr<c10d::Backend>(backend);
          watched.place = place;
          watch_nccl(std::move(watched));
        }
        require_equal(any_nccl_failure(), std::string(), "all is well");
        require(check_groups().has_value(), "a checkpoint may be kept");
        tell_entered();
        mine->error = c10d::ErrorType::TIMEOUT;
        require_equal(
            any_nccl_failure(),
            std::string("NCCL has given the group 'big' up: rank 5 has not come to its collective 41, "
                        "and rank 7 says nothing"),
            "as every rank hears it");
        require(!check_groups(), "a checkpoint may not be kept");
        require_equal(nccl_failure_of(*job.process_group()), std::string(), "a group of the CPU");
        const std::string failure = any_nccl_failure();
        const auto of_peer = group_of(job, peers);
        require_equal(nccl_failure_of(*of_peer), failure, "a member that was not in it refuses alike");
        note_nccl_failure_of(*of_peer);
        require_equal(noted_nccl_failure(), std::string(), "its program knows");
      },
      1);
}

// main() has returned before the group of GPUs is given up.
TEST(Nccl, AGroupThatWasGivenUpEndsARankThatHasNotBeenTold) {
  const auto end = [](c10d::ErrorType error) {
    spawn(
        [error](Job& job) {
          const auto backend = c10::make_intrusive<StandIn>(0, 41);
          backend->error = error;
          watch_nccl({.backend = c10::weak_intrusive_ptr<c10d::Backend>(backend),
                      .store = job.store(),
                      .ranks = {0},
                      .name = "big"});
          note_nccl_failure_of(*group_of(job, backend));
        },
        1);
  };
  EXPECT_NO_THROW(end(c10d::ErrorType::SUCCESS));
  EXPECT_THAT([&] { end(c10d::ErrorType::TIMEOUT); },
              testing::ThrowsMessage<std::runtime_error>(HasSubstr("exited with code 1")));
}

TEST(Nccl, EndsGroupsAndNotProcessesUnlessTheUserHasChosen) {
  EXPECT_TRUE(nccl_ends_groups(nullptr, nullptr));
  EXPECT_TRUE(nccl_ends_groups("1", "NCCL_SOCKET_IFNAME,TORCH_NCCL_ASYNC_ERROR_HANDLING"));
  EXPECT_FALSE(nccl_ends_groups("1", "NCCL_SOCKET_IFNAME")) << "the user's, or torchrun's";
  EXPECT_FALSE(nccl_ends_groups("3", nullptr));
}

}  // namespace
}  // namespace muster
