#include "common/net/task_group.h"

#include <boost/asio/local/connect_pair.hpp>
#include <gtest/gtest.h>

namespace muster::net {
namespace {

using Socket = asio::local::stream_protocol::socket;

awaitable<void> read_until_it_ends(Socket& socket, int& ends) {
  char byte = 0;
  boost::system::error_code error;
  co_await socket.async_read_some(asio::buffer(&byte, 1), asio::redirect_error(asio::use_awaitable, error));
  ++ends;
}

awaitable<void> read_for_ever(Socket& socket, int& reads) {
  for (char byte = 0;; ++reads) {
    boost::system::error_code error;
    co_await socket.async_read_some(asio::buffer(&byte, 1), asio::redirect_error(asio::use_awaitable, error));
  }
}

// Two readers in a context that has stopped.
class TaskGroupOutsideOfRun : public testing::Test {
 protected:
  void SetUp() override {
    asio::local::connect_pair(first_, peer_);
    tasks_.spawn(read_until_it_ends(first_, ends_));
    asio::local::connect_pair(second_, other_peer_);
    tasks_.spawn(read_until_it_ends(second_, ends_));
    context_.poll();
    ASSERT_EQ(ends_, 0);
  }
  void run_to_the_end() {
    context_.restart();
    while (!tasks_.empty() && context_.run_one() > 0) {
    }
    EXPECT_EQ(ends_, 2);
  }

  asio::io_context context_{1};
  TaskGroup tasks_{context_.get_executor()};
  Socket first_{context_};
  Socket second_{context_};
  Socket peer_{context_};
  Socket other_peer_{context_};
  int ends_ = 0;
};

TEST_F(TaskGroupOutsideOfRun, CancelsTasks) {
  tasks_.cancel();
  run_to_the_end();
}

// The first task ends before its cancellation's turn comes; the other keeps the context running until then.
TEST_F(TaskGroupOutsideOfRun, CancelsTasksAlthoughSomeEndByThemselvesMeanwhile) {
  first_.close();
  tasks_.cancel();
  run_to_the_end();
}

TEST_F(TaskGroupOutsideOfRun, CancelsTasksWhoseContextIsRunAfterTheyHaveEndedOtherwise) {
  first_.close();
  second_.close();
  tasks_.cancel();
  run_to_the_end();
  context_.poll();
}

TEST(TaskGroup, EndsATaskThatWaitsAgainAfterItWasCancelled) {
  asio::io_context context(1);
  TaskGroup tasks(context.get_executor());
  Socket socket(context);
  Socket peer(context);
  asio::local::connect_pair(socket, peer);
  int reads = 0;
  tasks.spawn(read_for_ever(socket, reads));
  context.poll();
  tasks.cancel();
  context.restart();
  context.run();
  EXPECT_TRUE(tasks.empty());
  EXPECT_EQ(reads, 1);
}

}  // namespace
}  // namespace muster::net
