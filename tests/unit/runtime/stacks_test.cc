#include "runtime/rank/stacks.h"

#include <condition_variable>
#include <csignal>
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <mutex>
#include <pthread.h>
#include <semaphore>
#include <thread>
#include <unistd.h>

#include "common/base/clock.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr std::chrono::milliseconds kLimit{1000};

// Runs a body in a thread with a name; begun() when it is there.
class Named {
 public:
  Named(const char* name, std::function<void(std::binary_semaphore& begun)> body)
      : thread_([this, name, body = std::move(body)] {
          pthread_setname_np(pthread_self(), name);
          body(begun_);
        }) {
    begun_.acquire();
  }

 private:
  std::binary_semaphore begun_{0};
  std::jthread thread_;
};

// The part of the stacks about the thread of this name.
std::string part_of(const std::string& stacks, const std::string& name) {
  const std::size_t begin = stacks.find("(" + name + ")");
  if (begin == std::string::npos) return "";
  return stacks.substr(begin, stacks.find("\nthread ", begin) - begin);
}

// Asked from a thread of its own, as the heart's.
std::string stacks() {
  EXPECT_TRUE(prepare_stacks());
  std::string text;
  std::thread([&] {
    pthread_setname_np(pthread_self(), "asking");
    text = describe_stacks(kLimit);
  }).join();
  return text;
}

TEST(Stacks, ShowWhereThreadsInADeadlockAre) {
  std::mutex mutex;
  mutex.lock();
  {
    Named blocked("blocked", [&](auto& begun) {
      begun.release();
      const std::scoped_lock lock(mutex);
    });
    // It may still be on its way into the lock.
    const TimePoint limit = Clock::now() + std::chrono::seconds(10);
    std::string text;
    do text = stacks();
    while (text.find("pthread_mutex_lock") == std::string::npos && Clock::now() < limit);
    EXPECT_THAT(part_of(text, "blocked"), AllOf(HasSubstr("pthread_mutex_lock"), HasSubstr("libc.so")));
    EXPECT_EQ(part_of(text, "asking"), "");
    mutex.unlock();
  }
}

// This program is one of those that are linked without -rdynamic.
TEST(Stacks, SayWhyTheProgramsOwnFramesHaveNoNames) {
  std::binary_semaphore end{0};
  Named waiting("waiting", [&](auto& begun) {
    begun.release();
    end.acquire();
  });
  ASSERT_EQ(dlsym(RTLD_DEFAULT, "main"), nullptr);
  const std::string text = part_of(stacks(), "waiting");
  EXPECT_THAT(text, ContainsRegex(
                        "    reports_test\\+0x[0-9a-f]+  \\(no name: link the program with -rdynamic\\)\n"));
  EXPECT_THAT(text, Not(ContainsRegex("libc.so[^\n]*-rdynamic")));
  end.release();
}

TEST(Stacks, AreTakenAgainAndAgain) {
  std::binary_semaphore end{0};
  Named waiting("waiting", [&](auto& begun) {
    begun.release();
    end.acquire();
  });
  for (int i = 0; i < 50; ++i) EXPECT_THAT(part_of(stacks(), "waiting"), HasSubstr("libc.so")) << i;
  end.release();
}

TEST(Stacks, TellOfThreadsThatTakeNoSignals) {
  std::binary_semaphore end{0};
  Named deaf("deaf", [&](auto& begun) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    begun.release();
    end.acquire();
  });
  const TimePoint before = Clock::now();
  EXPECT_THAT(part_of(stacks(), "deaf"), HasSubstr("takes no signals"));
  EXPECT_LT(Clock::now() - before, kLimit);
  end.release();
}

TEST(Stacks, LeaveTheProgramItsSignals) {
  ASSERT_TRUE(prepare_stacks());
  int taken = 0;
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) {
    struct sigaction action{};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_DFL) ++taken;
  }
  EXPECT_EQ(taken, 1);
}

}  // namespace
}  // namespace muster
