// What people at this machine see of a job: the terminal, events.jsonl, launcher.log, and the answers to
// those who ask over the control socket.
//
// One thread; the parts outlive it. It decides nothing and never waits.
#pragma once

#include "launcher/io/view/enquiries.h"
#include "launcher/io/view/line_file.h"
#include "launcher/io/view/terminal.h"
#include "launcher/io/view/view.h"

namespace muster::launcher {

class LocalView final : public View {
 public:
  // The files are `log_directory`'s. `quiet`: the terminal shows what workers print, and nothing else.
  LocalView(Terminal& terminal, Enquiries& enquiries, net::LogWriter& files, const std::string& log_directory,
            bool quiet);

  void show(const Decision& decision, Duration age) override;
  void show_progress(std::string_view text) override;
  void show_output(NodeId node, const wire::Output& output, Taken taken) override;
  bool takes(int stream, Duration period) const override { return terminal_.takes(stream, period); }
  void show_stacks(const wire::WorkerStacks& stacks) override { enquiries_.hear(stacks); }

 private:
  Terminal& terminal_;
  Enquiries& enquiries_;
  LineFile events_;
  LineFile log_;
  bool quiet_;
};

}  // namespace muster::launcher
