// A template: the user's program, loaded and waiting in muster::init() to be forked.
//
// A child of the agent, in its own process group, killed with the agent. The destructor kills it. Waits only
// for the answer to an order, and only for a moment. One thread.
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
  // Appends the template's output before init() to the file. The error says what is wrong with the program or
  // the file.
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

  // Reads the first message on the socket: empty if the template is ready, otherwise one clause why it cannot
  // be forked.
  std::string first_answer();
  // Whether ranks can have other arguments than the template; known after first_answer().
  bool takes_arguments() const { return takes_arguments_; }
  // Forks a worker. kInternal: this fork failed, but the next one may succeed. Any other error: the template
  // cannot be used any more.
  Expected<Process> fork(const ForkOrder& order, const std::array<int, 3>& streams);
  // Kills the template unless it has ended. If it ended by itself, returns how: "was killed by signal 9";
  // otherwise returns "". First waits `wait_ms`, because a process ends a moment after its socket.
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
