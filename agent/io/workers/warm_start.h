// Manages the template of this node, through all attempts of a job and all jobs of an agent. The template is
// executed when an attempt is prepared. When the attempt starts, ranks are forked from it. It stays for the
// next attempt. If its command or environment changes, a new template replaces it.
//
// If anything goes wrong with the template, the attempt does not fail. The ranks are then executed, and the
// reason is reported. Node decides how long to wait for a template that is loading. One thread.
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

  // Call this when a job begins. `settled` is called when a template has finished loading or has failed to
  // load. It is called again if a template that was ready is gone. Both arguments are used until `tasks` is
  // canceled.
  void begin(net::TaskGroup& tasks, std::function<void()> settled);
  // Call this before the ranks of an attempt start. Returns whether the template is loading. If it is,
  // `settled` is called later.
  bool prepare(std::expected<TemplateSpec, std::string> wanted, const std::string& output_file,
               rlimit descriptor_limit);
  // Forks a rank. If that is not possible, the rank must be executed instead, and the error says why, in one
  // clause. The error is empty if nobody asked for a template.
  std::expected<Process, std::string> fork(const std::vector<std::string>& arguments,
                                           const Environment& environment, const std::array<int, 3>& streams);
  // Kills the template. No other template with the same spec is loaded after that.
  void give_up(const std::string& reason);
  // Kills the template. Call this when the agent leaves.
  void end();
  bool has_template() const { return template_ != nullptr; }
  // Returns the id of the job in the template's environment. Returns "" if there is no template.
  std::string job_of_template() const;
  bool owns(pid_t pid) const { return template_ != nullptr && template_->pid() == pid; }

 private:
  awaitable<void> watch(std::shared_ptr<Template> watched);
  // Ends the template, and stores the reason in `why_not_`. If the template has already ended by itself and
  // `is_final` is false, the stored reason is how the template ended. In all other cases the stored reason is
  // `reason`.
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
