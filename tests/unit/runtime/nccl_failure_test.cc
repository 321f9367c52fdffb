#include <gmock/gmock.h>
#include <muster/muster.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "runtime/comm/nccl/backend.h"
#include "runtime/comm/nccl/failure.h"
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

TEST(Nccl, SaysWhoHasNotComeToACollectiveThatHasNotEndedInTime) {
  spawn(
      [](Job& job) {
        const NcclGroup group{.store = job.store(), .ranks = {4, 5, 7}, .name = "big"};
        require_equal(describe_absent(group, {{}, {}, {}}), std::string(), "nobody says anything");
        require_equal(describe_absent(group, {{3}, {3}, {3}}), std::string(), "all are there");
        require_equal(describe_absent(group, {{41}, {40}, {39}}),
                      std::string("ranks 5, 7 have not entered its collective 41"), "two are behind");
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
        require_equal(any_nccl_failure(),
                      std::string("NCCL has given up group 'big': rank 5 has not entered its collective 41, "
                                  "and rank 7 has not answered"),
                      "as every rank hears it");
        require(!check_groups(), "a checkpoint may not be kept");
        require_equal(nccl_failure_of(nullptr), std::string(), "a group of the CPU");
        const std::string failure = any_nccl_failure();
        require_equal(nccl_failure_of(peers), failure, "a member that was not in it refuses alike");
        note_nccl_failure_of(peers);
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
          note_nccl_failure_of(backend);
        },
        1);
  };
  EXPECT_NO_THROW(end(c10d::ErrorType::SUCCESS));
  EXPECT_THAT([&] { end(c10d::ErrorType::TIMEOUT); },
              testing::ThrowsMessage<std::runtime_error>(HasSubstr("exited with code 1")));
}

TEST(Nccl, AMessageThatHasNotEndedInTimeGivesItsGroupUp) {
  spawn(
      [](Job& job) {
        const auto collectives = c10::make_intrusive<StandIn>(0, 41);
        const auto messages = c10::make_intrusive<StandIn>(0, 3);
        watch_nccl({.backend = c10::weak_intrusive_ptr<c10d::Backend>(collectives),
                    .store = job.store(),
                    .ranks = {4, 5, 7},
                    .name = "big"});
        watch_messages(messages, collectives);
        tell_entered();
        require_equal(job.store()->get_to_str("entered/0"), std::string("41"), "messages are not counted");
        messages->error = c10d::ErrorType::TIMEOUT;
        const std::string failure = nccl_failure_of(messages);
        require_equal(failure, std::string("NCCL has given up group 'big': a message timed out"),
                      "whoever has not come to a collective is not to blame");
        require_equal(nccl_failure_of(collectives), failure, "collectives are refused as well");
      },
      1);
}

TEST(Nccl, EndsGroupsAndNotProcessesUnlessTheUserHasChosen) {
  EXPECT_TRUE(nccl_ends_groups(nullptr, nullptr));
  EXPECT_TRUE(nccl_ends_groups("1", "NCCL_SOCKET_IFNAME,TORCH_NCCL_ASYNC_ERROR_HANDLING"));
  EXPECT_FALSE(nccl_ends_groups("1", "NCCL_SOCKET_IFNAME")) << "the user's, or torchrun's";
  EXPECT_FALSE(nccl_ends_groups("3", nullptr));
}

}  // namespace
}  // namespace muster
