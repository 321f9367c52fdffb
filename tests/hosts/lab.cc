#include "tests/hosts/lab.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "common/base/check.h"
#include "tests/chaos/machine.h"

namespace muster::hosts {

namespace {

namespace fs = std::filesystem;

void write_text(const fs::path& path, const std::string& text, uid_t owner = 0, mode_t mode = 0644) {
  std::ofstream(path) << text;
  CHECK(chmod(path.c_str(), mode) == 0 && chown(path.c_str(), owner, owner) == 0, "{}: {}", path.string(),
        std::strerror(errno));
}

std::string text_of(const std::string& path) {
  return read_file(path, 1 << 20).value_or("");
}

void bind_over(const std::string& from, const std::string& to) {
  CHECK(mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0, "{} to {}: {}", from, to,
        std::strerror(errno));
}

void mount_empty(const char* directory) {
  CHECK(mount("tmpfs", directory, "tmpfs", 0, "mode=0755") == 0, "{}: {}", directory, std::strerror(errno));
}

// The switch's interface towards a host.
std::string port(int host, int network = 0) {
  return fmt::format("{}{}", network == 0 ? "v" : "w", host);
}

// The machine's users, without the Lab's own.
std::string system_users() {
  std::ifstream file("/etc/passwd");
  std::string users;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("root:") && !line.starts_with("trainer:")) users += line + "\n";
  }
  return users;
}

}  // namespace

std::string why_no_lab() {
  if (geteuid() != 0) return "only root may make hosts in namespaces";
  if (const std::string why = chaos::why_no_small_disk(); !why.empty()) return why;
  for (const char* program : {"/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/ssh-keygen", "/usr/bin/nsenter"}) {
    if (access(program, X_OK) != 0) return fmt::format("{} is missing: ./dev setup installs it", program);
  }
  if (std::system(
          "unshare -n sh -c 'ip link add br0 type bridge && ebtables -A FORWARD -j DROP' >/dev/null 2>&1") !=
      0)
    return "this kernel or container does not allow a bridge with ebtables in a namespace";
  return "";
}

Lab::Lab(int count, int networks) : shared_(scratch_ / "shared") {
  CHECK(count > 0 && count < 200 && networks > 0 && networks <= 2);
  CHECK(chmod(scratch_.path().c_str(), 0755) == 0);
  fs::create_directory(shared_);
  CHECK(chmod(shared_.c_str(), 01777) == 0);
  switch_ = std::make_unique<Host>("switch", [] {}, nullptr);
  make_keys();
  for (int i = 0; i < count; ++i) {
    make_files(i, count);
    hosts_.push_back(std::make_unique<Host>(
        fmt::format("h{}", i), [this, i] { mount_files(i); }, i == 0 ? nullptr : hosts_[0].get()));
    std::string seen;
    for (std::ifstream status(fmt::format("/proc/{}/status", host(i).pid())); std::getline(status, seen);) {
      if (seen.starts_with("NSpid:")) break;
    }
    // The second pid of a process is the one that the head sees.
    const auto from = seen.find('\t', seen.find('\t') + 1) + 1;
    write_text(scratch_.path() / "pids" / host(i).name(),
               seen.substr(from, seen.find('\t', from) - from) + "\n");
  }
  make_links(networks);
  sshd_.resize(hosts_.size());
  for (int i = 0; i < count; ++i) restart_sshd(i, "");
  // All hosts see the tests' scratch files.
  if (const char* before = std::getenv("TMPDIR"); before != nullptr) outer_variable_ = before;
  setenv("TMPDIR", shared_.c_str(), 1);
}

Lab::~Lab() {
  if (outer_variable_) {
    setenv("TMPDIR", outer_variable_->c_str(), 1);
  } else {
    unsetenv("TMPDIR");
  }
  while (!hosts_.empty()) hosts_.pop_back();  // the head last: its namespace contains the others' processes
}

std::string Lab::address(int host, int network) {
  return fmt::format("10.{}.0.{}", 77 + network, 10 + host);
}

std::string Lab::address6(int host) {
  return fmt::format("fd77::{:x}", 10 + host);
}

std::string Lab::home(int host, uid_t user) const {
  return scratch_ / fmt::format("h{}/{}", host, user == 0 ? "root" : "trainer");
}

std::map<std::string, std::string> Lab::environment(int host, uid_t user) const {
  return {{"HOME", home(host, user)}, {"USER", user == 0 ? "root" : "trainer"}, {"TMPDIR", "/tmp"}};
}

void Lab::make_keys() {
  for (const char* name : {"key", "host_key"}) {
    const std::string command =
        fmt::format("ssh-keygen -q -t ed25519 -N '' -C lab -f {}", (scratch_.path() / name).string());
    CHECK(std::system(command.c_str()) == 0, "{}", command);
  }
  fs::create_directory(scratch_.path() / "pids");
  write_text(scratch_.path() / "enter",
             fmt::format("#!/bin/sh\nread pid <{0}/pids/$1 && HOME={0}/$1/root && export HOME && shift &&\n"
                         "exec nsenter -t \"$pid\" -m -u -i -n -p -- \"$@\"\n",
                         scratch_.path().string()),
             0, 0755);
}

void Lab::make_files(int host, int count) {
  const fs::path own = scratch_.path() / fmt::format("h{}", host);
  std::string names = "127.0.0.1 localhost\n::1 localhost\n";
  std::string known;
  for (int i = 0; i < count; ++i) {
    names += fmt::format("{} h{}\n{} h{}.v6\n", address(i), i, address6(i), i);
    known += fmt::format("h{0},h{0}.v6,{1},{2} {3}", i, address(i), address6(i),
                         text_of(scratch_ / "host_key.pub"));
  }
  for (const char* directory : {"etc", "tmp"}) fs::create_directories(own / directory);
  CHECK(chmod((own / "tmp").c_str(), 01777) == 0);
  write_text(own / "etc/hosts", names);
  write_text(own / "etc/passwd",
             fmt::format("root:x:0:0:root:{}:/bin/bash\ntrainer:x:{}:{}::{}:/bin/bash\n{}", home(host),
                         kTrainer, kTrainer, home(host, kTrainer), system_users()));
  write_text(own / "etc/shadow", "root:*:19000:0:99999:7:::\ntrainer:*:19000:0:99999:7:::\n", 0, 0600);
  for (const uid_t user : {uid_t{0}, kTrainer}) {
    const fs::path ssh = fs::path(home(host, user)) / ".ssh";
    fs::create_directories(ssh);
    for (const fs::path& path : {ssh.parent_path(), ssh})
      CHECK(chmod(path.c_str(), 0700) == 0 && chown(path.c_str(), user, user) == 0);
    write_text(ssh / "id_ed25519", text_of(scratch_ / "key"), user, 0600);
    write_text(ssh / "authorized_keys", text_of(scratch_ / "key.pub"), user, 0600);
    write_text(ssh / "known_hosts", known, user, 0600);
  }
}

// Runs in the host's first process.
void Lab::mount_files(int host) const {
  const std::string own = scratch_ / fmt::format("h{}", host);
  for (const char* file : {"hosts", "passwd", "shadow"})
    bind_over(own + "/etc/" + file, std::string("/etc/") + file);
  mount_empty("/run");
  CHECK(mkdir("/run/sshd", 0755) == 0);
  mount_empty("/dev/shm");
  CHECK(chmod("/dev/shm", 01777) == 0);
  // Mounts the Lab's own files at their usual path, even below a hidden directory.
  const std::string scratch = scratch_.path();
  if (scratch.starts_with("/tmp/")) {
    const std::string below = own + scratch;
    fs::create_directories(below);
    bind_over(scratch, below);
  }
  bind_over(own + "/tmp", "/tmp");
}

void Lab::make_links(int networks) {
  std::string switch_batch = "link set lo up\n";
  for (int network = 0; network < networks; ++network) {
    switch_batch += fmt::format("link add br{0} type bridge\nlink set br{0} up\n", network);
    for (int i = 0; i < size(); ++i) {
      // Names the host by its first process's pid as the test sees it, since the test runs the batch.
      switch_batch += fmt::format(
          "link add {0} type veth peer name eth{1} netns {2}\nlink set {0} master br{1}\nlink set {0} up\n",
          port(i, network), network, host(i).pid());
    }
  }
  write_text(scratch_.path() / "switch.batch", switch_batch);
  const std::string command =
      fmt::format("nsenter -t {} -n ip -batch {}", switch_->pid(), scratch_ / "switch.batch");
  CHECK(std::system(command.c_str()) == 0, "{}", command);
  for (int i = 0; i < size(); ++i) {
    const std::string batch = shared_ + "/host.batch";
    write_text(
        batch,
        fmt::format("link set lo up\naddr add {}/24 dev eth0\naddr add {}/64 dev eth0 nodad\n"
                    "link set eth0 up\n",
                    address(i), address6(i)) +
            (networks == 1 ? "" : fmt::format("addr add {}/24 dev eth1\nlink set eth1 up\n", address(i, 1))));
    CHECK(host(i).run({"ip", "-batch", batch}) == 0);
    fs::remove(batch);
  }
}

void Lab::restart_sshd(int index, const std::string& lines) {
  const Host& on = host(index);
  pid_t& sshd = sshd_[static_cast<std::size_t>(index)];
  if (sshd > 0) {
    kill(sshd, SIGKILL);
    waitpid(sshd, nullptr, 0);
  }
  const std::string own = scratch_ / on.name();
  write_text(own + "/etc/sshd_config",
             fmt::format(
                 "{}\nHostKey {}\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\n"
                 "PidFile none\nUseDNS no\n",
                 lines, scratch_ / "host_key"));
  sshd = on.fork();
  if (sshd == 0) {
    clearenv();
    setsid();
    dup2(open((own + "/sshd.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644), STDERR_FILENO);
    execl("/usr/sbin/sshd", "/usr/sbin/sshd", "-D", "-e", "-f", (own + "/etc/sshd_config").c_str(), nullptr);
    _exit(127);
  }
  CHECK(on.answers(22), "no sshd on {}: {}", on.name(), text_of(own + "/sshd.log"));
}

std::vector<pid_t> Lab::processes(int index) const {
  std::vector<pid_t> found = host(index).processes();
  std::erase(found, sshd_[static_cast<std::size_t>(index)]);
  return found;
}

std::vector<pid_t> Lab::processes(int index, const std::string& name) const {
  std::vector<pid_t> found = processes(index);
  std::erase_if(found, [&](pid_t pid) { return text_of(fmt::format("/proc/{}/comm", pid)) != name + "\n"; });
  return found;
}

void Lab::filter(const std::vector<std::string>& rule) {
  std::vector<std::string> words{"ebtables", "--concurrent"};
  words.insert(words.end(), rule.begin(), rule.end());
  CHECK(switch_->run(words) == 0);
}

void Lab::cut(int one, int other) {
  cut_one_way(one, other);
  cut_one_way(other, one);
}

void Lab::cut_one_way(int from, int to) {
  filter({"-A", "FORWARD", "-i", port(from), "-o", port(to), "-j", "DROP"});
}

void Lab::isolate(int host) {
  isolate_one_way(host);
  filter({"-A", "FORWARD", "-o", port(host), "-j", "DROP"});
}

void Lab::isolate_one_way(int from) {
  filter({"-A", "FORWARD", "-i", port(from), "-j", "DROP"});
}

void Lab::drop_packets_to(int index) {
  std::string link;
  CHECK(host(index).run({"ip", "-brief", "link", "show", "eth0"}, &link) == 0, "{}", link);
  // "eth0@if3 UP 0a:1b:2c:3d:4e:5f <BROADCAST,...>"
  const std::size_t colon = link.find(':');
  CHECK(colon != std::string::npos && colon >= 2, "{}", link);
  constexpr std::size_t kHardwareAddress = 17;
  CHECK(head().run({"ip", "neigh", "replace", address(index), "lladdr",
                    link.substr(colon - 2, kHardwareAddress), "nud", "permanent", "dev", "eth0"}) == 0);
  isolate(index);
}

void Lab::heal() {
  filter({"-F", "FORWARD"});
}

void Lab::flap(int host, std::chrono::milliseconds away, std::chrono::milliseconds back, int times) {
  for (int i = 0; i < times; ++i) {
    isolate(host);
    std::this_thread::sleep_for(away);
    heal();
    std::this_thread::sleep_for(back);
  }
}

}  // namespace muster::hosts
