// Manages the template of this node, through all attempts of a job and all jobs of an agent. It is executed
// when an attempt is prepared, forked when the attempt starts, and kept for the next attempt. It is replaced
// when its command or environment changes.
//
// If anything goes wrong with the template, the attempt does not fail: its ranks are executed instead, and
// the reason is reported. Node decides how long to wait for a template that is loading. One thread.
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

  // Call when a job begins. `settled`: called when a template that was loading is ready or gone, or a ready
  // one is gone. Both arguments are used until `tasks` is canceled.
  void begin(net::TaskGroup& tasks, std::function<void()> settled);
  // Call before the ranks of an attempt start. Returns whether the template is loading; if so, `settled` is
  // called later.
  bool prepare(std::expected<TemplateSpec, std::string> wanted, const std::string& output_file,
               rlimit descriptor_limit);
  // Forks a rank. The error says in one clause why the rank must be executed instead; it is empty if no
  // template was requested.
  std::expected<Process, std::string> fork(const std::vector<std::string>& arguments,
                                           const Environment& environment, const std::array<int, 3>& streams);
  // Kills the template, and loads no other with the same spec.
  void give_up(const std::string& reason);
  // Kills the template, because the agent leaves.
  void end();
  bool has_template() const { return template_ != nullptr; }
  // Returns the job that the template's environment names; "" if there is no template.
  std::string job_of_template() const;
  bool owns(pid_t pid) const { return template_ != nullptr && template_->pid() == pid; }

 private:
  awaitable<void> watch(std::shared_ptr<Template> watched);
  // Ends the template, and stores the reason in `why_not_`: how the template ended by itself, or else
  // `reason`. If `is_final`, stores `reason` in any case.
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
