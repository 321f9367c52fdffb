#include "launcher/core/settings/torchrun_options.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "common/base/text.h"

namespace muster::launcher {

namespace {

// Returns a name for the job's directory. Characters that are not allowed there become dashes.
std::string as_file_name(std::string name) {
  constexpr std::size_t kMostLetters = 100;
  name.resize(std::min(name.size(), kMostLetters));
  std::ranges::replace_if(
      name,
      [](char letter) {
        return !((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                 (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' || letter == '.');
      },
      '-');
  if (name.starts_with('.')) name.front() = '-';
  return name;
}

// Reads torchrun's name of the job. The default of torchrun is "none", which does not name the job.
void read_run_id(SettingReader& reader, Options& options) {
  const Setting* setting = reader.find("rdzv-id");
  if (setting == nullptr) return;
  options.run_id = setting->values.back();
  if (options.run_id.empty()) return reader.refuse(*setting, "does not name a job: give a name");
  if (options.run_id != "none") options.job_name = as_file_name(options.run_id);
}

// With the static backend, the store of the workers uses the port of --rdzv-endpoint or --master-port, as in
// torchrun. With other backends, each attempt uses a free port.
void read_master_port(SettingReader& reader, Options& options) {
  bool standalone = false;
  reader.flag("standalone", standalone);
  std::string backend = "static";
  reader.choice("rdzv-backend",
                {{"static", "static"}, {"c10d", "c10d"}, {"etcd", "etcd"}, {"etcd-v2", "etcd-v2"}}, backend);
  const bool is_used = backend == "static" && !standalone;
  const auto take = [&](const Setting& setting, std::string_view text) {
    const auto port = parse_number<std::uint16_t>(text);
    if (!port) return reader.refuse(setting, "is not a port: give 1 to 65535, or 0 for any free one");
    if (!is_used || *port == 0) return;
    options.master_port = *port;
    options.master_port_source = setting.source;
  };
  if (const Setting* setting = reader.find("master-port")) take(*setting, setting->values.back());
  const Setting* endpoint = reader.find("rdzv-endpoint");
  if (endpoint == nullptr || !is_used) return;
  const std::string_view text = endpoint->values.back();
  const std::size_t colon = text.rfind(':');
  const bool has_port = colon != std::string_view::npos && !text.ends_with(']') &&
                        (text.find(':') == colon || text[colon - 1] == ']');
  if (has_port) take(*endpoint, text.substr(colon + 1));
}

bool is_signal_name(std::string_view text) {
  if (!text.starts_with("SIG")) return false;
  text.remove_prefix(3);
  if (text == "RTMIN" || text == "RTMAX") return true;
  for (int number = 1; number < SIGRTMIN; ++number) {
    const char* name = sigabbrev_np(number);
    if (name != nullptr && text == name) return true;
  }
  return false;
}

void check_signals(SettingReader& reader) {
  const Setting* setting = reader.find("signals-to-handle");
  if (setting == nullptr) return;
  for (std::string_view name : split(setting->values.back(), ',')) {
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (is_signal_name(name)) continue;
    return reader.refuse({setting->source, {std::string(name)}},
                         "is not a signal name: give names as in SIGTERM,SIGUSR1");
  }
}

void check_rendezvous_conf(SettingReader& reader) {
  const Setting* setting = reader.find("rdzv-conf");
  if (setting == nullptr || setting->values.back().find_first_not_of(' ') == std::string::npos) return;
  for (const std::string_view part : split(setting->values.back(), ',')) {
    if (part.find('=') == std::string_view::npos || part.find('=') == 0)
      return reader.refuse(*setting, "is not a list of KEY=VALUE: give join_timeout=60,read_timeout=5");
  }
}

}  // namespace

void read_torchrun(SettingReader& reader, Options& options) {
  read_run_id(reader, options);
  read_master_port(reader, options);
  reader.flag("run-path", options.run_path);
  reader.flag("virtual-local-rank", options.virtual_local_rank);
  std::string ignored;
  reader.choice("start-method", {{"spawn", "spawn"}, {"fork", "fork"}, {"forkserver", "forkserver"}},
                ignored);
  reader.choice("logs-specs", {{"default", "default"}}, ignored);
  Duration unused{};
  reader.seconds("monitor-interval", false, unused);
  check_rendezvous_conf(reader);
  check_signals(reader);
}

}  // namespace muster::launcher
