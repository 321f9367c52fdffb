#include "common/base/quiet_thread.h"

#include <array>
#include <csignal>
#include <gtest/gtest.h>
#include <pthread.h>

namespace muster {
namespace {

bool blocks(int signal) {
  sigset_t blocked{};
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return sigismember(&blocked, signal) == 1;
}

TEST(QuietThread, BlocksSignalsAndKeepsItsStartersMask) {
  sigset_t one{};
  sigset_t before{};
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  pthread_sigmask(SIG_SETMASK, &one, &before);
  bool all = false;
  start_quiet_thread("quiet", [&all](const std::stop_token&) {
    all = blocks(SIGTERM) && blocks(SIGINT) && blocks(SIGCHLD) && blocks(SIGUSR1) && blocks(SIGRTMAX);
  }).join();
  EXPECT_TRUE(all);
  EXPECT_TRUE(blocks(SIGUSR1));
  EXPECT_FALSE(blocks(SIGTERM));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(QuietThread, HasItsName) {
  std::array<char, 16> name{};
  start_quiet_thread("muster-quiet", [&name](const std::stop_token&) {
    pthread_getname_np(pthread_self(), name.data(), name.size());
  }).join();
  EXPECT_STREQ(name.data(), "muster-quiet");
}

}  // namespace
}  // namespace muster
