// The module with OpenSSL: its contents, and programs without it.
#include <dlfcn.h>
#include <fstream>
#include <gmock/gmock.h>

#include "common/base/file.h"
#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::HasSubstr;

constexpr std::size_t kLargest = 1 << 30;  // of a program, in bytes

TEST(TlsModule, HoldsOpenSslAndTheProgramsDoNot) {
  const std::string name = "OpenSSL Default Provider";
  EXPECT_NE(read_file(TLS_MODULE, kLargest).value().find(name), std::string::npos);
  for (const char* program : {LAUNCH_PROGRAM, AGENT_PROGRAM})
    EXPECT_EQ(read_file(program, kLargest).value().find(name), std::string::npos) << program;
}

// The module's symbols must not mix with another OpenSSL or libstdc++ in the same program.
TEST(TlsModule, ShowsItsEntryAndNothingElse) {
  void* const module = dlopen(TLS_MODULE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << dlerror();
  EXPECT_NE(dlsym(module, "muster_tls"), nullptr);
  EXPECT_EQ(dlsym(module, "SSL_new"), nullptr);
  EXPECT_EQ(dlsym(module, "EVP_sha256"), nullptr);
}

// Copies of the programs without the module.
class WithoutTlsModule : public testing::Test {
 protected:
  WithoutTlsModule() {
    std::filesystem::create_directories(folder_ / "bin");
    std::filesystem::create_directories(std::filesystem::path(module_).parent_path());
    std::filesystem::copy_file(LAUNCH_PROGRAM, launch_);
    std::filesystem::copy_file(AGENT_PROGRAM, folder_ / "bin/muster-agent");
  }
  // The exit code and output of a job over TLS.
  std::pair<int, std::string> run_with_tls() const {
    LaunchRun run({"--control", "tcp", "echo", "hello"}, {}, launch_);
    const int code = run.exit_code();
    EXPECT_EQ(run.out(), "");
    return {code, run.err()};
  }

  const ScratchDirectory folder_;
  const std::string launch_ = folder_ / "bin/launch";
  const std::string module_ = folder_ / MUSTER_LIBRARY_FOLDER "/libmuster_tls.so";
};

TEST_F(WithoutTlsModule, AJobOverSocketsRuns) {
  LaunchRun run({"--nodes", "2", "echo", "hello"}, {}, launch_);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("hello"));
}

TEST_F(WithoutTlsModule, AJobOverTlsEndsAndNamesIt) {
  const auto [code, text] = run_with_tls();
  EXPECT_EQ(code, 125);
  EXPECT_THAT(text,
              HasSubstr("cannot load " + module_ + ", which TLS needs: cannot open shared object file"));
}

TEST_F(WithoutTlsModule, WhatLiesInItsPlaceIsNamed) {
  std::ofstream(module_) << "no library";
  EXPECT_THAT(run_with_tls().second, HasSubstr("cannot load " + module_ + ", which TLS needs: "));
  std::filesystem::remove(module_);
  std::filesystem::copy_file(FAKE_NVML_FILE, module_);
  EXPECT_THAT(run_with_tls().second,
              HasSubstr("cannot load " + module_ + ", which TLS needs: undefined symbol: muster_tls"));
}

TEST_F(WithoutTlsModule, AnAgentThatMustConnectSaysSo) {
  // Keeps the agent's stdin open, since the agent leaves at its end.
  const std::string pipe_name = folder_ / "input";
  const std::string command = "mkfifo " + pipe_name + " && exec 3<>" + pipe_name + " && echo " +
                              std::string(64, '0') + " >&3 && " + (folder_ / "bin/muster-agent") +
                              " --connect 127.0.0.1:1 --identity job/agent/0/1 --node 0 <&3 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string text(4096, '\0');
  text.resize(fread(text.data(), 1, text.size(), pipe));
  const int status = pclose(pipe);
  EXPECT_EQ(WEXITSTATUS(status), 69);
  EXPECT_THAT(text,
              HasSubstr("cannot load " + module_ + ", which TLS needs: cannot open shared object file"));
}

}  // namespace
}  // namespace muster
