#include "common/net/log_writer.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <thread>

namespace muster::net {
namespace {

// The file's directory is missing for the first piece and then exists again.
TEST(LogWriter, AFileThatStopsAfterAnErrorAcceptsNothingMore) {
  for (const auto after : {LogWriter::AfterTrouble::kGoOn, LogWriter::AfterTrouble::kStop}) {
    std::string directory = (std::filesystem::temp_directory_path() / "muster-log-XXXXXX").string();
    ASSERT_NE(mkdtemp(directory.data()), nullptr);
    const std::string name = directory + "/log";
    std::filesystem::create_directory(name);
    asio::io_context context(1);
    LogWriter writer(context.get_executor());
    int told = 0;
    const auto file = writer.add(
        std::make_unique<LogParts>(name, UniqueFd(), nullptr), [&told](const std::string&) { ++told; },
        after);
    const auto write = [&] {
      file->put("a line\n");
      asio::co_spawn(context, writer.written(std::chrono::seconds(5), [] { return false; }), asio::detached);
      context.restart();
      context.run();
    };
    write();
    std::filesystem::remove(name);
    write();
    EXPECT_EQ(told, 1);
    EXPECT_EQ(std::filesystem::exists(name), after == LogWriter::AfterTrouble::kGoOn);
    EXPECT_EQ(file->lost_bytes(), after == LogWriter::AfterTrouble::kGoOn ? 7U : 14U);
    std::filesystem::remove_all(directory);
  }
}

// The threads that call the driver do this with the agent's own log.
TEST(LogWriter, AcceptsBytesFromAnotherThread) {
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
