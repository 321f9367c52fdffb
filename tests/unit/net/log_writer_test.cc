#include "common/net/log_writer.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <thread>

namespace muster::net {
namespace {

// As the driver's threads do in the agent's own log.
TEST(LogWriter, TakesWhatAnotherThreadPuts) {
  constexpr int kLines = 1000;
  std::string name = (std::filesystem::temp_directory_path() / "muster-log-XXXXXX").string();
  const UniqueFd made(mkstemp(name.data()));
  asio::io_context context(1);
  {
    LogWriter writer(context.get_executor());
    const auto file = writer.add(std::make_unique<LogParts>(name, UniqueFd(), nullptr), {});
    std::thread other([&file] {
      for (int i = 0; i < kLines; ++i) file->put("theirs\n");
    });
    for (int i = 0; i < kLines; ++i) {
      file->put("ours\n");
      context.poll();
      context.restart();
    }
    other.join();
  }
  std::ifstream written(name);
  int count = 0;
  for (std::string line; std::getline(written, line);) ++count;
  EXPECT_EQ(count, 2 * kLines);
  std::filesystem::remove(name);
}

}  // namespace
}  // namespace muster::net
