#include "tests/docker/registry.h"

#include <cerrno>
#include <crypt.h>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/file.h"

namespace muster::docker {

namespace {

// Like htpasswd -B, the only kind that the registry accepts. Few rounds, since the password is not secret.
std::string htpasswd_line(const Login& login) {
  char salt[CRYPT_GENSALT_OUTPUT_SIZE];
  CHECK(crypt_gensalt_rn("$2y$", 5, nullptr, 0, salt, sizeof salt) != nullptr, "{}", std::strerror(errno));
  crypt_data data{};
  const char* hash = crypt_r(login.password.c_str(), salt, &data);
  CHECK(hash != nullptr, "{}", std::strerror(errno));
  return fmt::format("{}:{}\n", login.user, hash);
}

}  // namespace

Registry::Registry(const Engine& engine, const std::string& directory, const std::optional<Login>& login)
    : engine_(engine), login_(login) {
  static int next_port = 5000;
  port_ = next_port++;
  CHECK(std::filesystem::create_directory(directory), "{}", directory);
  std::ofstream(directory + "/config.yml") << fmt::format(
      "version: 0.1\nlog: {{level: warn}}\nstorage: {{filesystem: {{rootdirectory: {}/images}}}}\n"
      "http: {{addr: '127.0.0.1:{}'}}\n",
      directory, port_);
  if (login_) {
    std::ofstream(directory + "/htpasswd") << htpasswd_line(*login_);
    std::ofstream(directory + "/config.yml", std::ios::app)
        << fmt::format("auth: {{htpasswd: {{realm: test, path: {}/htpasswd}}}}\n", directory);
  }
  const std::string log = directory + "/log";
  pid_ = engine_.host().fork();
  if (pid_ == 0) {
    clearenv();
    dup2(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644), STDERR_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execl("/usr/bin/docker-registry", "docker-registry", "serve", (directory + "/config.yml").c_str(),
          nullptr);
    _exit(127);
  }
  CHECK(engine_.host().answers(static_cast<std::uint16_t>(port_)), "no registry: {}",
        read_file(log, 1 << 20).value_or(""));
}

Registry::~Registry() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::string Registry::address() const {
  return fmt::format("127.0.0.1:{}", port_);
}

int Registry::log_in(const Login& login, std::string* output) const {
  return engine_.docker({"login", "--username", login.user, "--password", login.password, address()}, output);
}

int Registry::log_out() const {
  std::string output;
  return engine_.docker({"logout", address()}, &output);
}

void Registry::take(const std::string& image) const {
  std::string output;
  if (login_) CHECK(log_in(*login_, &output) == 0, "{}", output);
  engine_.printed_by({"tag", image, name(image)});
  engine_.printed_by({"push", name(image)});
  engine_.printed_by({"rmi", image, name(image)});
  if (login_) log_out();
}

}  // namespace muster::docker
