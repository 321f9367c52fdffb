// A template: a process that has loaded the user's program, and then waits in muster::init() for orders to
// fork.
//
// The template is a child of the agent, and has a process group of its own. It is killed when the agent ends.
// The destructor also kills it. Only first_answer(), fork(), end() and the destructor block, for a few
// seconds at most. One thread.
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
  // Starts the template. Everything that its program prints before init() is appended to `output_file`. An
  // error says what is wrong with the program or with the file.
  static Expected<std::shared_ptr<Template>> execute(const asio::any_io_executor& executor, TemplateSpec spec,
                                                     const std::string& output_file, rlimit descriptor_limit);
  Template(const Template&) = delete;
  Template& operator=(const Template&) = delete;
  ~Template();

  const TemplateSpec& spec() const { return spec_; }
  pid_t pid() const { return pid_; }
  // This socket is readable when the template is ready, when it refuses, or when it has ended.
  asio::posix::stream_descriptor& socket() { return socket_; }
  // Readable when the template has ended.
  asio::posix::stream_descriptor& pidfd() { return pidfd_; }

  // Waits for the first message on the socket. Returns "" if the template is ready. Otherwise the template
  // cannot be used, and this returns the reason in one clause.
  std::string first_answer();
  // Returns whether the ranks can have other arguments than the template has. This is known once
  // first_answer() has returned.
  bool takes_arguments() const { return takes_arguments_; }
  // Makes the template fork a worker. If this fails with kInternal, the next fork may still succeed. After
  // any other error, the template cannot be used any more.
  Expected<Process> fork(const ForkOrder& order, const std::array<int, 3>& streams);
  // Kills the template, but first gives it `wait_ms` to end by itself. If it has ended by itself, returns
  // how, for example "was killed by signal 9". Otherwise returns "". A process ends a moment after its socket
  // is closed. So a caller that sees the closed socket has to pass some `wait_ms`.
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
