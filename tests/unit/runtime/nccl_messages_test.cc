#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <chrono>
#include <future>
#include <gmock/gmock.h>
#include <muster/muster.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "runtime/comm/job_state.h"
#include "runtime/comm/nccl/failure.h"
#include "runtime/comm/nccl/messages.h"
#include "runtime/pipeline/exchange.h"
#include "tests/require.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kLimit{20};

// In the place of NCCL's: what is asked of it is done one after the other, by Gloo.
struct InOrder : c10d::Backend {
  struct Done : c10d::Work {
    explicit Done(std::shared_future<void> of) : done(std::move(of)) {}
    bool wait(std::chrono::milliseconds) override {
      done.get();
      return true;
    }
    std::shared_future<void> done;
  };

  InOrder(const Job& job, Direction of)
      : Backend(job.rank(), job.world_size()),
        direction(of),
        gloo_(job.process_group()->getBackend(c10::kCPU)) {}

  const std::string getBackendName() const override { return "nccl"; }
  c10d::ErrorType getError() override { return error; }
  void shutdown() override { is_shut_down = true; }
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int peer, int tag) override {
    sent_to.push_back(peer);
    return behind([gloo = gloo_, tensors, peer, tag]() mutable { return gloo->send(tensors, peer, tag); });
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int peer, int tag) override {
    received_from.push_back(peer);
    return behind([gloo = gloo_, tensors, peer, tag]() mutable { return gloo->recv(tensors, peer, tag); });
  }

  Direction direction;
  std::vector<int> sent_to;
  std::vector<int> received_from;
  c10d::ErrorType error = c10d::ErrorType::SUCCESS;
  bool is_shut_down = false;

 private:
  template <class Start>
  c10::intrusive_ptr<c10d::Work> behind(Start start) {
    newest_ = std::async(std::launch::async, [before = newest_, start]() mutable {
                if (before.valid()) before.get();
                start()->wait(kLimit);
              }).share();
    return c10::make_intrusive<Done>(newest_);
  }

  c10::intrusive_ptr<c10d::Backend> gloo_;
  std::shared_future<void> newest_;
};

using Made = std::vector<c10::intrusive_ptr<InOrder>>;

// As a group on GPUs has them.
void give_messages(const Job& job, const Group& group, Made& made) {
  state_of(group).messages.emplace(group.rank(), c10::kCPU, [&](Direction direction) {
    return made.emplace_back(c10::make_intrusive<InOrder>(job, direction));
  });
}

TEST(NcclMessages, TwoRanksMayReceiveBeforeTheySend) {
  spawn(
      [](Job& job) {
        Made made;
        give_messages(job, job, made);
        const int peer = 1 - job.rank();
        const at::Tensor in = at::zeros({2});
        Work received = irecv(job, in, peer);
        Work sent = isend(job, at::full({2}, job.rank() + 5.0), peer);
        received.wait();
        sent.wait();
        require_equal(in.sum().item<double>(), 2 * (peer + 5.0), "what the peer has sent");
      },
      2);
}

// A chain, as of the stages of a pipeline.
TEST(NcclMessages, OnlyRanksThatTalkAreConnectedOnceInEachDirection) {
  spawn(
      [](Job& job) {
        Made made;
        give_messages(job, job, made);
        require(state_of(Group(job)).messages->up() == nullptr, "nothing is made before it is needed");
        std::vector<int> before, after;
        if (job.rank() > 0) before.push_back(job.rank() - 1);
        if (job.rank() + 1 < job.world_size()) after.push_back(job.rank() + 1);
        ExchangePlan plan;
        for (const auto* peers : {&before, &after})
          for (const int peer : *peers) plan.channels.emplace_back().peer = peer;
        for (int twice = 0; twice < 2; ++twice) const Exchange exchange(job, plan, {});
        require_equal(made.size(), std::size_t{2}, "a backend for each direction");
        require(made[0]->direction == Direction::kUp && made[1]->direction == Direction::kDown, "of its own");
        require(made[0]->sent_to == after && made[0]->received_from == before, "up");
        require(made[1]->sent_to == before && made[1]->received_from == after, "down");
      },
      4);
}

TEST(NcclMessages, OfAGroupThatIsGivenUpAreRefusedInBothDirectionsAndTheProgramKnows) {
  spawn(
      [](Job& job) {
        Made made;
        const auto collectives = c10::make_intrusive<InOrder>(job, Direction::kUp);
        {
          const Group group = job.new_group({0, 1}, {.name = "pair"});
          state_of(group).nccl = collectives;
          watch_nccl({.backend = c10::weak_intrusive_ptr<c10d::Backend>(collectives),
                      .store = group.store(),
                      .ranks = group.ranks(),
                      .place = group.rank(),
                      .name = group.name()});
          give_messages(job, group, made);
          const int peer = 1 - job.rank();
          const at::Tensor in = at::zeros({2});
          Work received = irecv(group, in, peer);
          send(group, at::full({2}, 1.0), peer);
          received.wait();
          for (const auto& each : made) {
            watch_messages(each, collectives);
            each->error = c10d::ErrorType::TIMEOUT;
          }
          const auto refused = [&](const auto& call) {
            try {
              call();
            } catch (const std::runtime_error& error) {
              const std::string text = error.what();
              require(text.contains("NCCL has given up group 'pair': a message timed out"), text);
              return;
            }
            throw std::runtime_error("it was not refused");
          };
          refused([&] { (void)isend(group, in, peer); });
          refused([&] { (void)irecv(group, in, peer); });
        }
        for (const auto& each : made) require(each->is_shut_down, "as it ends");
        require_equal(noted_nccl_failure(), std::string(), "its program has been told");
      },
      2);
}

}  // namespace
}  // namespace muster
