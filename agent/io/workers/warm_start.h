// The template of this node through the attempts of a job, and through the jobs of an agent that serves
// several: executed when an attempt is prepared, forked when it starts, kept for the next one, replaced when
// its command or environment would change.
//
// If anything goes wrong with the template, ranks are executed instead, and the reason is kept. The attempt
// never fails because of it. Node decides how long to wait for a template that is loading. One thread.
#pragma once

#include <array>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/io/workers/template.h"
#include "common/net/task_group.h"

namespace muster::agent {

class WarmStart {
 public:
  explicit WarmStart(asio::any_io_executor executor) : executor_(std::move(executor)) {}
  WarmStart(const WarmStart&) = delete;
  WarmStart& operator=(const WarmStart&) = delete;

  // A job begins. `settled`: called when the template that was loading is ready or gone. Both are used until
  // the tasks are cancelled.
  void begin(net::TaskGroup& tasks, std::function<void()> settled);
  // Call before the ranks of an attempt start. True: the template is loading, and `settled` follows.
  bool prepare(std::expected<TemplateSpec, std::string> wanted, const std::string& output_file,
               rlimit descriptor_limit);
  // The error says in one clause why the rank must be executed; empty if no template was requested.
  std::expected<Process, std::string> fork(const std::vector<std::string>& arguments,
                                           const Environment& environment, const std::array<int, 3>& streams);
  // Kills a template that takes too long, and tries no other with the same spec.
  void give_up(const std::string& reason);
  // Kills the template, because the agent leaves.
  void end();
  bool has_template() const { return template_ != nullptr; }
  // The job that the template's environment names; "" without a template.
  std::string job_of_template() const;
  bool owns(pid_t pid) const { return template_ != nullptr && template_->pid() == pid; }

 private:
  awaitable<void> watch(std::shared_ptr<Template> watched);
  // Gives the template up. If it has ended by itself, the way it ended replaces `reason`, unless `reason` is
  // final.
  void drop(const std::string& reason, bool is_final = false);

  asio::any_io_executor executor_;
  net::TaskGroup* tasks_ = nullptr;
  std::function<void()> settled_;
  std::shared_ptr<Template> template_;
  bool ready_ = false;
  std::string why_not_;                  // why template_ is null
  std::optional<TemplateSpec> refused_;  // no template is tried for this spec any more
};

}  // namespace muster::agent
