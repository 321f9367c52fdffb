// A template: a process that has loaded the user's program, and waits in muster::init() for orders to fork.
//
// The template is a child of the agent, in its own process group. It is killed when the agent ends, and by
// the destructor. Only first_answer(), fork(), end() and the destructor block, for at most a few seconds. One
// thread.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "agent/core/start/template_spec.h"
#include "agent/io/workers/process.h"
#include "common/net/asio.h"

namespace muster::agent {

class Template {
 public:
  // Starts the template. Its output before init() is appended to the file. The error says what is wrong with
  // the program or the file.
  static Expected<std::shared_ptr<Template>> execute(const asio::any_io_executor& executor, TemplateSpec spec,
                                                     const std::string& output_file, rlimit descriptor_limit);
  Template(const Template&) = delete;
  Template& operator=(const Template&) = delete;
  ~Template();

  const TemplateSpec& spec() const { return spec_; }
  pid_t pid() const { return pid_; }
  // Readable when the template is ready, refuses, or has ended.
  asio::posix::stream_descriptor& socket() { return socket_; }
  // Readable when the template has ended.
  asio::posix::stream_descriptor& pidfd() { return pidfd_; }

  // Reads the first message on the socket. Returns "" if the template is ready, or else in one clause why it
  // cannot be used.
  std::string first_answer();
  // Returns whether ranks can have other arguments than the template. Known after first_answer().
  bool takes_arguments() const { return takes_arguments_; }
  // Forks a worker. After the error kInternal the next fork may succeed. After any other error the template
  // cannot be used any more.
  Expected<Process> fork(const ForkOrder& order, const std::array<int, 3>& streams);
  // Kills the template unless it ends by itself within `wait_ms`. Returns how it ended by itself, such as
  // "was killed by signal 9", or "". (A process ends a moment after its socket is closed, so a caller that
  // sees the closed socket needs `wait_ms`.)
  std::string end(int wait_ms = 0);

 private:
  Template(TemplateSpec spec, Process process, asio::posix::stream_descriptor socket,
           asio::posix::stream_descriptor pidfd, std::string output_file);

  TemplateSpec spec_;
  pid_t pid_;
  asio::posix::stream_descriptor socket_;
  asio::posix::stream_descriptor pidfd_;
  std::string output_file_;
  bool takes_arguments_ = false;
};

}  // namespace muster::agent
