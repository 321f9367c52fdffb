// A template: the user's program, loaded and waiting in muster::init() to be forked.
//
// The agent's own child, in a group of its own, killed with the agent. Destroying it kills it. One thread;
// the only thing waited for is the answer to an order, for a moment.
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
  // The template's output, from before init(), is appended to the file. The error says what is wrong with the
  // program or the file.
  static Expected<std::shared_ptr<Template>> execute(const asio::any_io_executor& executor, TemplateSpec spec,
                                                     const std::string& output_file, rlimit descriptor_limit);
  Template(const Template&) = delete;
  Template& operator=(const Template&) = delete;
  ~Template();

  const TemplateSpec& spec() const { return spec_; }
  pid_t pid() const { return pid_; }
  // Readable when it is ready, refuses, or has ended.
  asio::posix::stream_descriptor& socket() { return socket_; }
  // Readable when it has ended.
  asio::posix::stream_descriptor& pidfd() { return pidfd_; }

  // What the socket was readable for: empty, it is ready; else in one clause why it cannot be forked.
  std::string first_answer();
  // A worker with these changes to the template's environment. kInternal: the fork failed, and the next one
  // may not. Anything else: the template is of no use any more.
  Expected<Process> fork(const std::vector<std::string>& changes, const std::array<int, 3>& streams);
  // Kills it unless it has ended, and says how it ended by itself: "was killed by signal 9"; empty if not.
  // Whoever saw its socket end waits a moment for the process's end, which comes after.
  std::string end(int wait_ms = 0);

 private:
  Template(TemplateSpec spec, Process process, asio::posix::stream_descriptor socket,
           asio::posix::stream_descriptor pidfd, std::string output_file);

  TemplateSpec spec_;
  pid_t pid_;
  asio::posix::stream_descriptor socket_;
  asio::posix::stream_descriptor pidfd_;
  std::string output_file_;
};

}  // namespace muster::agent
