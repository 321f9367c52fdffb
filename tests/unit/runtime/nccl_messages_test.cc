#include "runtime/comm/nccl_messages.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <chrono>
#include <future>
#include <muster/muster.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tests/require.h"

namespace muster {
namespace {

using namespace std::chrono_literals;

// In the place of NCCL's: what is asked of it is done one after the other.
struct InOrder : c10d::Backend {
  struct Done : c10d::Work {
    explicit Done(std::shared_future<void> of) : done(std::move(of)) {}
    bool wait(std::chrono::milliseconds) override {
      if (done.wait_for(20s) == std::future_status::timeout) throw std::runtime_error("it has not ended");
      done.get();
      return true;
    }
    std::shared_future<void> done;
  };

  explicit InOrder(const Job& job)
      : Backend(job.rank(), job.world_size()), gloo_(job.process_group()->getBackend(c10::kCPU)) {}

  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int peer, int tag) override {
    sent_to.push_back(peer);
    return behind([gloo = gloo_, tensors, peer, tag]() mutable { gloo->send(tensors, peer, tag)->wait(); });
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int peer, int tag) override {
    received_from.push_back(peer);
    return behind([gloo = gloo_, tensors, peer, tag]() mutable { gloo->recv(tensors, peer, tag)->wait(); });
  }

  std::vector<int> sent_to;
  std::vector<int> received_from;

 private:
  template <class Body>
  c10::intrusive_ptr<c10d::Work> behind(Body body) {
    newest_ = std::async(std::launch::async, [before = newest_, body]() mutable {
                if (before.valid()) before.wait();
                body();
              }).share();
    return c10::make_intrusive<Done>(newest_);
  }

  c10::intrusive_ptr<c10d::Backend> gloo_;
  std::shared_future<void> newest_;
};

TEST(NcclMessages, TwoRanksMayReceiveBeforeTheySend) {
  spawn(
      [](Job& job) {
        NcclMessages messages(job.rank(), c10::kCPU,
                              [&](Direction) { return c10::make_intrusive<InOrder>(job); });
        const int peer = 1 - job.rank();
        std::vector<at::Tensor> in{at::zeros({2})};
        std::vector<at::Tensor> out{at::full({2}, job.rank() + 5.0)};
        const auto received = messages.between(peer, job.rank()).recv(in, peer, 1);
        const auto sent = messages.between(job.rank(), peer).send(out, peer, 1);
        received->wait();
        sent->wait();
        require_equal(in.front().sum().item<double>(), 2 * (peer + 5.0), "what the peer has sent");
      },
      2);
}

// A chain, as of the stages of a pipeline.
TEST(NcclMessages, OnlyRanksThatTalkAreConnectedOnceInEachDirection) {
  spawn(
      [](Job& job) {
        std::vector<c10::intrusive_ptr<InOrder>> made;
        NcclMessages messages(job.rank(), c10::kCPU, [&](Direction) {
          return made.emplace_back(c10::make_intrusive<InOrder>(job));
        });
        require(messages.up() == nullptr && messages.down() == nullptr,
                "nothing is made before it is needed");
        std::vector<int> before, after;
        if (job.rank() > 0) before.push_back(job.rank() - 1);
        if (job.rank() + 1 < job.world_size()) after.push_back(job.rank() + 1);
        for (int twice = 0; twice < 2; ++twice)
          for (const auto* peers : {&before, &after})
            for (const int peer : *peers) messages.connect(peer);
        require_equal(made.size(), std::size_t{2}, "a backend for each direction");
        require(made[0]->sent_to == after && made[0]->received_from == before, "up");
        require(made[1]->sent_to == before && made[1]->received_from == after, "down");
      },
      4);
}

}  // namespace
}  // namespace muster
