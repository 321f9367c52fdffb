// Runs the commands of docs/docker.md and docs/start/containers.md in order, as a new user would: on a host
// with an engine, and another host with its own engine.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/docker/lab.h"
#include "tests/process/agent_test_launcher.h"

namespace muster::docker {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

void write_program(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  std::filesystem::permissions(path, std::filesystem::perms(0755));
}

TEST(DockerPage, EveryCommandDoesWhatThePageSays) {
  if (const std::string why = why_no_engine(); !why.empty()) GTEST_SKIP() << why;
  const Lab lab(2);
  const Engine other(lab.hosts.host(1), lab.hosts.shared() + "/other");
  lab.engine.listen_as_default();
  other.listen_as_default();
  // The page's images, made from images that need no registry.
  lab.engine.load("bookworm");
  lab.engine.load("python");
  other.load("bookworm");
  for (const auto& [from, to] : {std::pair{"bookworm", "debian:bookworm-slim"},
                                 {"bookworm", "my-training"},
                                 {"python", "python:3.12"}})
    lab.engine.printed_by({"tag", from, to});
  other.printed_by({"tag", "bookworm", "my-training"});

  const std::string work = lab.hosts.shared() + "/work";
  std::filesystem::create_directories(work);
  std::filesystem::create_directories(lab.hosts.home(0) + "/data");
  std::ofstream(lab.hosts.home(0) + "/data/text") << "read from data\n";
  write_program(work + "/train.py",
                "import os, muster\nmuster.step(1)\nprint('python rank', os.environ['RANK'], "
                "open('/data/text').read())\n");
  write_program(work + "/train", "#!/bin/sh\necho trains as rank $RANK on $(hostname)\n");

  const std::string programs = std::filesystem::path(LAUNCH_PROGRAM).parent_path();
  std::string all;
  EXPECT_EQ(lab.host.run(
                {"env", "HOME=" + lab.hosts.home(0), "python3", "-B", RUN_PAGES, "--where", "docker", "--bin",
                 programs, "--in", work, "--seconds", "200", "--show", DOCKER_DOCUMENT, CONTAINERS_DOCUMENT},
                &all),
            0)
      << all;
  for (const char* text :
       {"rank 3 of 6 on node1\n", "python rank 1 read from data", "memory       200.0 GiB", "node1 (muster-",
        ") was lost: its agent has ended: container ended with 137", "node1:2: rank 2 is done",
        "6 ranks succeeded", "after 1 restart", "node1:7: trains as rank 7 on h1", "8 ranks succeeded"})
    EXPECT_THAT(all, HasSubstr(text));
  if (std::getenv("DOCKER_PAGE_SHOW") != nullptr) std::fputs(all.c_str(), stdout);
  for (const Engine* engine : {&lab.engine, &other}) {
    EXPECT_TRUE(eventually([&] { return engine->containers().empty(); }, std::chrono::seconds(10)));
    EXPECT_THAT(engine->networks(), IsEmpty());
    EXPECT_TRUE(eventually([&] { return engine->processes().empty(); }, std::chrono::seconds(5)));
  }
}

}  // namespace
}  // namespace muster::docker
