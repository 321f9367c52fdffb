#include "launcher/core/settings/host_options.h"

#include <algorithm>
#include <filesystem>

#include "common/base/text.h"
#include "launcher/core/settings/container_options.h"
#include "launcher/core/settings/worker_environment.h"

namespace muster::launcher {

namespace {

// Fails because flags contradict each other. The error is one line. It begins with the flag, as in "--hosts:
// words".
template <class... Arguments>
void contradict(SettingReader& reader, const Setting& setting, fmt::format_string<Arguments...> format,
                Arguments&&... arguments) {
  reader.fail(Error(ErrorCode::kInvalidArgument,
                    one_line(fmt::format("{}: {}", setting.source,
                                         fmt::format(format, std::forward<Arguments>(arguments)...)))));
}

const Setting* hosts_setting(const SettingReader& reader) {
  const Setting* hosts = reader.find("hosts");
  return hosts != nullptr ? hosts : reader.find("hostfile");
}

std::string all_of(const Setting& setting) {
  std::string list;
  for (const std::string& value : setting.values) list += (list.empty() ? "" : ",") + value;
  return list;
}

std::optional<HostNames> names_of(const SettingReader& reader, std::string_view name) {
  const Setting* setting = reader.find(name);
  if (setting == nullptr) return std::nullopt;
  return HostNames{setting->source, all_of(*setting)};
}

Expected<std::vector<Host>> hosts_of(const SettingReader& reader, const Surroundings& here) {
  if (const Setting* hosts = reader.find("hosts")) return parse_hosts(all_of(*hosts), hosts->source);
  const Setting& file = *reader.find("hostfile");
  const std::string& path = file.values.back();
  const auto text = here.files.find(path);
  if (text == here.files.end())
    return failure(ErrorCode::kInvalidArgument, "{}: {} was not read", file.source, path);
  return parse_hostfile(text->second, fmt::format("{}: {}", file.source, path));
}

void read_list(SettingReader& reader, const Surroundings& here, Options& options) {
  const Setting* hosts = hosts_setting(reader);
  if (hosts == nullptr) {
    for (const char* name : {"include", "exclude"}) {
      if (const Setting* setting = reader.find(name))
        return reader.refuse(*setting, "needs a list of hosts to choose from: give --hosts or --hostfile");
    }
    return;
  }
  if (const Setting* file = reader.find("hostfile"); file != nullptr && hosts != file)
    return contradict(reader, *file,
                      "{} also names hosts: give only one of them, and --include to choose from it",
                      hosts->source);
  auto all = hosts_of(reader, here);
  if (all) all = choose_hosts(*std::move(all), names_of(reader, "include"), names_of(reader, "exclude"));
  if (!all) return reader.fail(all.error());
  options.hosts = *std::move(all);
}

void read_numbers(SettingReader& reader, Options& options) {
  const Setting* nodes = reader.find("nodes");
  if (options.hosts.empty()) {
    if (options.nodes > kMostLocalNodes)
      reader.refuse(
          *nodes, fmt::format("is more than the {} nodes allowed on one machine: give fewer, or give --hosts",
                              kMostLocalNodes));
    return;
  }
  const auto count = static_cast<std::int32_t>(options.hosts.size());
  const Setting* spares = reader.find("spare-nodes");
  const Setting& hosts = *hosts_setting(reader);
  if (nodes == nullptr) {
    if (options.spare_nodes >= count)
      return contradict(reader, *spares, "{} of {} hosts would leave none for nodes: give fewer",
                        options.spare_nodes, count);
    options.nodes = count - options.spare_nodes;
    return;
  }
  if (options.nodes > count && options.min_nodes && *options.min_nodes <= count) {
    options.max_nodes = options.nodes;
    options.nodes = count;
  }
  if (options.nodes > count)
    return contradict(reader, *nodes, "{} nodes need a host each, but {} gives {}", options.nodes,
                      hosts.source, count);
  const std::int32_t rest = count - options.nodes;
  if (spares != nullptr && options.spare_nodes != rest)
    return contradict(reader, *spares,
                      "{} spare nodes do not match: {} hosts for {} nodes leave {} spare; "
                      "give that number, or leave it out",
                      options.spare_nodes, count, options.nodes, rest);
  options.spare_nodes = rest;
}

void read_bootstrap(SettingReader& reader, Options& options) {
  using enum BootstrapKind;
  RemoteOptions& remote = options.remote;
  const Setting* exec = reader.find("exec");
  const bool here = options.hosts.empty();
  remote.bootstrap = exec != nullptr                   ? kExec
                     : !here                           ? kSsh
                     : reader.find("image") != nullptr ? kDocker
                                                       : kLocal;
  if (exec != nullptr) {
    const auto words = shell_words(exec->values.back());
    if (!words || words->empty() || words->front().empty())
      return reader.refuse(
          *exec, "is not a command: give one that runs a command on {host}, such as 'lxc exec {host} --'");
    const bool names_host =
        std::ranges::any_of(*words, [](const std::string& word) { return word.contains("{host}"); });
    if (!names_host && options.hosts.size() > 1)
      return reader.refuse(
          *exec,
          fmt::format("is the same command for all {} hosts: put {{host}} where the host's name belongs, "
                      "such as 'lxc exec {{host}} --'",
                      options.hosts.size()));
    remote.exec = *words;
  }
  if (const Setting* chosen = reader.find("bootstrap")) {
    reader.choice("bootstrap", {{"local", kLocal}, {"ssh", kSsh}, {"exec", kExec}, {"docker", kDocker}},
                  remote.bootstrap);
    if (remote.bootstrap == kExec && exec == nullptr)
      return contradict(reader, *chosen, "exec needs a command: give --exec 'lxc exec {{host}} --'");
    if (remote.bootstrap != kExec && exec != nullptr)
      return contradict(reader, *chosen, "{} does not use {}: leave out one of them", chosen->values.back(),
                        exec->source);
    const bool on_this_machine = remote.bootstrap == kLocal || remote.bootstrap == kDocker;
    if (on_this_machine && !here)
      return contradict(reader, *chosen, "{} starts all nodes {}, but {} names hosts: leave out one of them",
                        chosen->values.back(),
                        remote.bootstrap == kLocal ? "on this machine" : "as containers of one engine",
                        hosts_setting(reader)->source);
    if (const Setting* image = reader.find("image"); image != nullptr && remote.bootstrap == kLocal)
      return contradict(reader, *chosen,
                        "local does not start containers, but {} names an image: leave out one of them",
                        image->source);
    if (!on_this_machine && here)
      return contradict(reader, *chosen, "{} needs hosts: give --hosts or --hostfile", chosen->values.back());
  }
  if (exec != nullptr && options.hosts.empty())
    return contradict(reader, *exec, "needs hosts to run a command on: give --hosts or --hostfile");
}

void read_control(SettingReader& reader, Options& options) {
  reader.choice("control",
                {{"auto", Control::kAuto},
                 {"socket", Control::kSocket},
                 {"tcp", Control::kTcp},
                 {"stdio", Control::kStdio}},
                options.control);
  const Setting* control = reader.find("control");
  if (control == nullptr) return;
  if (options.control == Control::kSocket && !options.hosts.empty())
    return contradict(
        reader, *control,
        "socket works only for agents on this machine, but {} names hosts: give auto, tcp or stdio",
        hosts_setting(reader)->source);
  const bool docker = options.remote.bootstrap == BootstrapKind::kDocker;
  if (options.control == Control::kSocket && docker)
    return contradict(reader, *control,
                      "socket does not work for agents in containers: give auto, tcp or stdio");
  if (options.control == Control::kStdio && options.hosts.empty() && !docker)
    return contradict(reader, *control,
                      "stdio works only through a host shell: give --hosts or --hostfile, or socket or tcp");
}

bool is_address(std::string_view text) {
  const std::string_view number = text.substr(0, text.find('%'));
  return number.find_first_of(".:") != std::string_view::npos &&
         number.find_first_not_of("0123456789abcdefABCDEF.:") == std::string_view::npos;
}

bool is_network(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto bits = parse_number<std::uint8_t>(text.substr(std::min(slash + 1, text.size())));
  const std::uint8_t most = text.substr(0, slash).contains(':') ? 128 : 32;
  return is_address(text.substr(0, slash)) && bits && *bits <= most;
}

bool is_interface(std::string_view text) {
  constexpr std::size_t kMostLetters = 15;  // IFNAMSIZ without the final zero
  constexpr std::string_view kNone = " \t\r\n/:,'\"";
  return !text.empty() && text.size() <= kMostLetters && !text.starts_with('-') &&
         text.find_first_of(kNone) == std::string_view::npos;
}

void read_addresses(SettingReader& reader, Options& options) {
  RemoteOptions& remote = options.remote;
  if (const Setting* listen = reader.find("listen")) {
    for (std::string_view address : split(all_of(*listen), ',')) {
      if (address.starts_with('[') && address.ends_with(']')) address = address.substr(1, address.size() - 2);
      if (!is_address(address))
        return reader.refuse({listen->source, {std::string(address)}},
                             "is not an address of this machine: give a numeric one, "
                             "10.0.0.5 or fe80::1%eth0");
      remote.listen.emplace_back(address);
    }
  }
  if (const Setting* interface = reader.find("interface")) {
    if (remote.bootstrap == BootstrapKind::kLocal)
      return contradict(reader, *interface,
                        "{} is for nodes on several hosts, but all nodes are on this machine: "
                        "leave it out, or give --hosts",
                        interface->values.back());
    remote.interface = interface->values.back();
    const bool good =
        remote.interface.contains('/') ? is_network(remote.interface) : is_interface(remote.interface);
    if (!good)
      return reader.refuse(*interface, "is not an interface: give its name, eth0, or a network, 10.0.0.0/8");
  }
}

void read_sync(SettingReader& reader, const Surroundings& here, Options& options) {
  const Setting* sync = reader.find("sync");
  if (sync == nullptr) return;
  if (options.hosts.empty())
    return contradict(reader, *sync, "needs hosts to copy a directory to: give --hosts or --hostfile");
  for (const std::string& given : sync->values) {
    std::string path = (std::filesystem::path(here.working_directory) / given).lexically_normal().string();
    while (path.ends_with('/')) path.pop_back();
    if (given.empty() || path.empty() || path.find('\n') != std::string::npos)
      return reader.refuse({sync->source, {given}}, "cannot be copied: give a path below /");
    options.remote.sync.push_back(std::move(path));
  }
}

}  // namespace

std::optional<std::vector<std::string>> shell_words(std::string_view text) {
  std::vector<std::string> words;
  char quote = 0;
  bool in_word = false;
  const auto add = [&](char letter) {
    if (!in_word) words.emplace_back();
    in_word = true;
    if (letter != 0) words.back() += letter;
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == 0) return std::nullopt;
    if (letter == '\\' && quote != '\'') {
      if (++at == text.size() || text[at] == 0) return std::nullopt;
      // Between double quotes, a backslash stands for itself unless one of a few letters follows.
      if (quote == '"' && std::string_view("\"\\$`").find(text[at]) == std::string_view::npos) add('\\');
      add(text[at]);
    } else if (quote != 0) {
      letter == quote ? static_cast<void>(quote = 0) : add(letter);
    } else if (letter == '\'' || letter == '"') {
      quote = letter;
      add(0);
    } else if (letter == ' ' || letter == '\t' || letter == '\n') {
      in_word = false;
    } else {
      add(letter);
    }
  }
  if (quote != 0) return std::nullopt;
  return words;
}

void read_hosts(SettingReader& reader, const Surroundings& here, Options& options) {
  RemoteOptions& remote = options.remote;
  read_list(reader, here, options);
  if (reader.error()) return;
  read_numbers(reader, options);
  read_bootstrap(reader, options);
  read_control(reader, options);
  read_addresses(reader, options);
  read_sync(reader, here, options);
  reader.count("ssh-parallel", 1, "host shells", remote.ssh_parallel);
  reader.seconds("connect-timeout", false, remote.connect_timeout);
  reader.seconds("start-timeout", true, options.recovery.start_timeout);
  reader.text("remote-agent", remote.remote_agent);
  if (const Setting* agent = reader.find("remote-agent"); agent != nullptr) {
    if (!remote.remote_agent.starts_with('/'))
      reader.refuse(
          *agent,
          "is not an absolute path: give the agent's path on every host, such as /opt/muster/bin/muster-agent");
    else if (!fits_script(remote.remote_agent))
      reader.refuse(*agent,
                    "cannot be passed to every shell: give a path without quotes, backslashes, $, ! and `");
  }
  read_containers(reader, here, options);
  if (remote.in_containers())
    remote.passed = passed_to_containers(here.environment);
  else if (!options.hosts.empty())
    remote.passed = passed_environment(here.environment);
}

}  // namespace muster::launcher
