#include "agent/io/workers/warm_start.h"

#include <utility>

#include "agent/io/readable.h"
#include "common/base/log.h"

namespace muster::agent {

void WarmStart::begin(net::TaskGroup& tasks, std::function<void()> settled) {
  tasks_ = &tasks;
  settled_ = std::move(settled);
  if (template_ != nullptr) tasks_->spawn(watch(template_));
}

bool WarmStart::prepare(std::expected<TemplateSpec, std::string> wanted, const std::string& output_file,
                        rlimit descriptor_limit) {
  if (!wanted) {
    if (template_ != nullptr) drop("it is no longer needed");
    why_not_ = wanted.error();
    return false;
  }
  if (template_ != nullptr && can_serve(template_->spec(), *wanted, template_->takes_arguments()))
    return !ready_;
  if (template_ != nullptr) {
    const bool same_file = template_->spec().file == wanted->file;
    drop(same_file ? "the job's settings have changed" : "the program's file has changed");
  }
  if (refused_ && can_serve(*refused_, *wanted, /*takes_arguments=*/true)) return false;
  auto made = Template::execute(executor_, *wanted, output_file, descriptor_limit);
  if (!made) {
    why_not_ = made.error().message();
    return false;
  }
  template_ = *std::move(made);
  log::info("template {} loads the program; its output goes to {}", template_->pid(), output_file);
  tasks_->spawn(watch(template_));
  return true;
}

awaitable<void> WarmStart::watch(std::shared_ptr<Template> watched) {
  if (!ready_) {
    const bool answered = co_await readable(watched->socket());
    if (!answered || watched != template_) co_return;
    const std::string refusal = watched->first_answer();
    ready_ = refusal.empty();
    if (!ready_) {
      give_up(refusal);
    } else {
      log::info("template {} is ready", watched->pid());
    }
    settled_();
    if (watched != template_) co_return;
  }
  const bool ended = co_await readable(watched->pidfd());
  if (!ended || watched != template_) co_return;
  drop("");
  settled_();
}

std::expected<Process, std::string> WarmStart::fork(const std::vector<std::string>& arguments,
                                                    const Environment& environment,
                                                    const std::array<int, 3>& streams) {
  if (template_ == nullptr || !ready_) return std::unexpected(why_not_);
  const auto order = order_for(template_->spec(), template_->takes_arguments(), arguments, environment);
  if (!order) return std::unexpected(order.error());
  auto process = template_->fork(*order, streams);
  if (process) return *std::move(process);
  const std::string reason = "the template did not fork: " + process.error().message();
  if (process.error().code() != ErrorCode::kInternal) drop(reason);
  return std::unexpected(reason);
}

std::string WarmStart::job_of_template() const {
  return template_ == nullptr ? "" : template_->spec().environment.at("MUSTER_JOB_ID");
}

void WarmStart::give_up(const std::string& reason) {
  if (template_ == nullptr) return;
  refused_ = template_->spec();
  drop(reason, true);
}

void WarmStart::end() {
  if (template_ != nullptr) drop("the agent leaves");
}

void WarmStart::drop(const std::string& reason, bool is_final) {
  const std::shared_ptr<Template> dropped = std::exchange(template_, nullptr);
  ready_ = false;
  const std::string how = dropped->end();
  why_not_ = how.empty() || is_final ? reason : "the template " + how;
  log::info("template {} is gone: {}", dropped->pid(), why_not_);
}

}  // namespace muster::agent
