// A cluster on one machine: hosts h0, h1, ... joined by a switch, each with an address (10.77.0.10 + i, and
// fd77:: of IPv6), /etc/hosts, users, homes, /tmp and an sshd of its own.
//
// Does not touch the machine's network, its users' ~/.ssh or its /tmp; everything ends with the Lab. h0 is
// the head: `launch` runs there. All hosts share shared(), under the same path, as on a network file system.
// They also share the machine's other files, except /tmp, /run and /dev/shm. Root only.
#pragma once

#include <chrono>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/hosts/host.h"
#include "tests/scratch_directory.h"

namespace muster::hosts {

// The id of `trainer`, the ordinary user on all hosts; the other user is root.
constexpr uid_t kTrainer = 4242;

// Why this machine cannot have a Lab; empty: it can.
std::string why_no_lab();

class Lab {
 public:
  // With two networks, each host has a second interface, eth1, with 10.78.0.10 + i. No name resolves to it,
  // and no fault cuts it.
  explicit Lab(int hosts, int networks = 1);
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;
  ~Lab();

  int size() const { return static_cast<int>(hosts_.size()); }
  const Host& head() const { return *hosts_[0]; }
  const Host& host(int index) const { return *hosts_[static_cast<std::size_t>(index)]; }
  static std::string address(int host, int network = 0);
  static std::string address6(int host);
  std::string home(int host, uid_t user = 0) const;
  // The host's /tmp, as a path for the test.
  std::string temporary(int host) const { return scratch_ / fmt::format("h{}/tmp/", host); }
  const std::string& shared() const { return shared_; }
  // The environment of programs on this host: HOME, USER, TMPDIR.
  std::map<std::string, std::string> environment(int host, uid_t user = 0) const;
  // A program for `--exec`, on the head only: takes a host's name and a command, and runs the command there.
  std::string enter_program() const { return scratch_ / "enter"; }
  // Processes there, without the sshd itself, but with its connections' processes.
  std::vector<pid_t> processes(int host) const;
  std::vector<pid_t> processes(int host, const std::string& name) const;

  // Restarts the host's sshd, with these lines before its configuration.
  void restart_sshd(int host, const std::string& lines);

  // The switch drops the frames between two hosts, or between one host and all others.
  void cut(int one, int other);
  void cut_one_way(int from, int to);
  void isolate(int host);
  void isolate_one_way(int from);  // it receives frames, but the others do not receive its frames
  // Like isolate(), but the head keeps sending, without an error for an unreachable host.
  void drop_packets_to(int host);
  void heal();
  // Isolates and heals in turn; blocks meanwhile.
  void flap(int host, std::chrono::milliseconds away, std::chrono::milliseconds back, int times);

 private:
  void make_keys();
  void make_files(int host, int count);
  void mount_files(int host) const;
  void make_links(int networks);
  void filter(const std::vector<std::string>& rule);

  ScratchDirectory scratch_;
  std::string shared_, outer_temporary_;
  std::optional<std::string> outer_variable_;
  std::unique_ptr<Host> switch_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<pid_t> sshd_;
};

}  // namespace muster::hosts
