// Shows a job on this machine. It has a console, events.jsonl and launcher.log, and gives answers over the
// control socket.
//
// Decides nothing and never blocks. One thread. The objects that the constructor gets must outlive the
// LocalView.
#pragma once

#include "launcher/io/view/console.h"
#include "launcher/io/view/enquiries.h"
#include "launcher/io/view/line_file.h"
#include "launcher/io/view/rank_logs.h"
#include "launcher/io/view/view.h"

namespace muster::launcher {

class LocalView final : public View {
 public:
  // The files are written into the log directory of the plan. If `quiet` is true, the console shows only the
  // output of the workers.
  LocalView(Console& console, Enquiries& enquiries, net::LogWriter& files, const Plan& plan, bool quiet);

  void show(const Decision& decision, Duration age) override;
  void show_progress(std::string_view text) override;
  void show_output(NodeId node, const wire::Output& output, Taken taken) override;
  bool takes(int stream, Duration period) const override { return console_.takes(stream, period); }
  void show_stacks(const wire::WorkerStacks& stacks) override { enquiries_.hear(stacks); }
  bool wants_usage() const override { return enquiries_.wants_usage(); }
  void show_usage(const std::vector<wire::RankUsage>& usage) override { enquiries_.hear(usage); }
  void show_metrics(Rank rank, std::int64_t step, const std::map<std::string, double>& values) override {
    console_.show_metrics(rank, step, values);
  }
  void keep_clock(NodeId node, const std::string& host, const ClockOffset::Answer& answer) override;
  void logs_are_elsewhere(NodeId node, const std::string& host, const std::string& directory) override;
  void keep_log(NodeId node, Attempt attempt, const wire::LogPiece& piece, LogAnswer answer) override {
    rank_logs_.keep(node, attempt, piece, std::move(answer));
  }
  void agent_closed(NodeId node) override { rank_logs_.agent_closed(node); }
  std::string logs_to_come() const override;
  // Returns lines that tell the user which logs are incomplete on this machine.
  std::vector<std::string> missing_logs() const { return rank_logs_.arrivals().missing(); }

 private:
  Console& console_;
  Enquiries& enquiries_;
  bool remote_;  // the plan has hosts
  bool traced_;
  LineFile events_;
  LineFile log_;
  RankLogs rank_logs_;
  bool quiet_;
};

}  // namespace muster::launcher
