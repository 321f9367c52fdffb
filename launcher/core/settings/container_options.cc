#include "launcher/core/settings/container_options.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "common/base/text.h"

namespace muster::launcher {

namespace {

constexpr std::string_view kNameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
constexpr std::string_view kNeedImage[] = {"pull", "mount",   "shm-size",       "memory",    "cpus",
                                           "gpus", "network", "container-user", "read-only", "container-arg"};

bool is_docker_name(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kNameLetters) == std::string_view::npos &&
         !text.starts_with('-') && !text.starts_with('.');
}

// [REGISTRY[:PORT]/]NAME[:TAG][@DIGEST]
bool is_image(std::string_view text) {
  constexpr std::size_t kMostLetters = 512;
  return !text.empty() && text.size() <= kMostLetters && !text.starts_with('-') &&
         text.find_first_not_of(std::string(kNameLetters) + "/:@[]") == std::string_view::npos;
}

bool is_clean_path(std::string_view path) {
  return path.starts_with('/') && path.find_first_of(":\n") == std::string_view::npos &&
         path.find('\0') == std::string_view::npos;
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// SRC:DST, SRC:DST:ro or SRC:DST:rw.
std::optional<Mount> mount_of(std::string_view text, const std::string& working_directory) {
  const auto parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  if (parts.size() == 3 && parts[2] != "ro" && parts[2] != "rw") return std::nullopt;
  Mount mount{.source = std::string(parts[0]),
              .destination = without_slash(std::filesystem::path(parts[1]).lexically_normal().string()),
              .read_only = parts.size() == 3 && parts[2] == "ro"};
  if (mount.source.starts_with('/') || mount.source.starts_with('.'))
    mount.source =
        without_slash((std::filesystem::path(working_directory) / mount.source).lexically_normal().string());
  const bool from = mount.is_volume() ? is_docker_name(mount.source) : is_clean_path(mount.source);
  if (!from || !is_clean_path(mount.destination) || mount.destination == "/") return std::nullopt;
  return mount;
}

void read_mounts(SettingReader& reader, const Surroundings& here, ContainerOptions& container) {
  const Setting* setting = reader.find("mount");
  if (setting == nullptr) return;
  for (const std::string& given : setting->values) {
    auto mount = mount_of(given, here.working_directory);
    if (!mount)
      return reader.refuse(
          {setting->source, {given}},
          "cannot be mounted: give SRC:DST or SRC:DST:ro, where SRC is a path or a volume, and DST a path");
    const auto same = std::ranges::find(container.mounts, mount->destination, &Mount::destination);
    if (same != container.mounts.end())
      return reader.refuse({setting->source, {given}},
                           fmt::format("cannot be mounted: {} is already mounted there", same->source));
    container.mounts.push_back(*std::move(mount));
  }
}

// Returns whether the text names GPUs in the form that `docker run --gpus` takes.
bool are_gpus(std::string_view text) {
  constexpr std::string_view kDevice = "device=";
  if (text == "all") return true;
  if (!text.starts_with(kDevice)) {
    constexpr std::int32_t kMost = 1024;
    const auto number = parse_number<std::int32_t>(text);
    return number && *number > 0 && *number <= kMost;
  }
  text.remove_prefix(kDevice.size());
  return !text.empty() && std::ranges::all_of(split(text, ','), is_docker_name);
}

// Returns whether the text has the form NAME or UID, with or without :GROUP. A name must exist in the image.
bool is_container_user(std::string_view text) {
  const auto parts = split(text, ':');
  return parts.size() <= 2 && std::ranges::all_of(parts, is_docker_name);
}

void read_limits(SettingReader& reader, ContainerOptions& container) {
  constexpr std::int64_t kLeastMemoryBytes = 6 << 20;  // the engine's minimum
  constexpr std::int64_t kLeastShmBytes = 64 << 10;
  reader.bytes("memory", kLeastMemoryBytes, container.memory_bytes);
  reader.bytes("shm-size", kLeastShmBytes, container.shm_bytes);
  if (const Setting* cpus = reader.find("cpus")) {
    const auto number = parse_number<double>(cpus->values.back());
    constexpr double kLeast = 0.01;
    constexpr double kMost = 1e6;
    if (!number || !(*number >= kLeast && *number <= kMost))
      return reader.refuse(*cpus, "is not a number of cores: give 2 or 1.5");
    container.cpus = *number;
  }
}

// NAME=SOFT[:HARD], -1: no limit.
bool is_ulimit(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos) return false;
  const auto limits = split(text.substr(equals + 1), ':');
  return limits.size() <= 2 && std::ranges::all_of(limits, [](std::string_view limit) {
           const auto number = parse_number<std::int64_t>(limit);
           return number && *number >= -1;
         });
}

bool is_device(std::string_view text) {
  const auto parts = split(text, ':');
  const auto are_permissions = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("rwm") == std::string_view::npos;
  };
  if (parts.size() > 3 || !parts[0].starts_with('/')) return false;
  if (parts.size() == 2) return parts[1].starts_with('/') || are_permissions(parts[1]);
  return parts.size() == 1 || (parts[1].starts_with('/') && are_permissions(parts[2]));
}

// Returns why the value is refused. Returns an empty text if the value is valid.
std::string_view wrong_with(const ContainerArgument& argument) {
  if (argument.name == "ulimit" && !is_ulimit(argument.value))
    return "is not a limit: give ulimit=NAME=NUMBER or NAME=SOFT:HARD, -1 for none";
  if (argument.name == "device" && !is_device(argument.value))
    return "is not a device: give device=/dev/X, device=/dev/X:/dev/Y or device=/dev/X:/dev/Y:rwm";
  if (argument.name == "label" && argument.value.starts_with("muster."))
    return "is a label reserved for Muster: give another name";
  if (argument.name == "security-opt" && argument.value.starts_with("seccomp=") &&
      argument.value != "seccomp=unconfined")
    return "names a profile file, which is not supported: give seccomp=unconfined";
  if (!is_utf8(argument.value)) return "is not UTF-8";
  return "";
}

void read_arguments(SettingReader& reader, ContainerOptions& container) {
  const Setting* setting = reader.find("container-arg");
  if (setting == nullptr) return;
  for (const std::string& given : setting->values) {
    const std::size_t equals = given.find('=');
    ContainerArgument argument{given.substr(0, equals),
                               equals == std::string::npos ? "" : given.substr(equals + 1)};
    const bool known = std::ranges::find(kContainerArguments, argument.name) != std::end(kContainerArguments);
    if (!known || argument.value.empty() || argument.value.find('\0') != std::string::npos) {
      std::string names;
      for (const std::string_view name : kContainerArguments)
        names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
      return reader.refuse(
          {setting->source, {given}},
          fmt::format("is not a container argument: give NAME=VALUE with one of these names: {}", names));
    }
    if (const std::string_view wrong = wrong_with(argument); !wrong.empty())
      return reader.refuse({setting->source, {given}}, wrong);
    container.arguments.push_back(std::move(argument));
  }
}

}  // namespace

void read_containers(SettingReader& reader, const Surroundings& here, Options& options) {
  ContainerOptions& container = options.remote.container;
  const Setting* image = reader.find("image");
  if (image == nullptr) {
    for (const std::string_view name : kNeedImage) {
      if (const Setting* setting = reader.find(name))
        return reader.fail(Error(ErrorCode::kInvalidArgument,
                                 fmt::format("{}: needs --image{}", setting->source,
                                             name == "gpus" ? "; for workers use --gpus-per-node" : "")));
    }
    if (const Setting* bootstrap = reader.find("bootstrap");
        bootstrap != nullptr && options.remote.bootstrap == BootstrapKind::kDocker)
      reader.fail(
          Error(ErrorCode::kInvalidArgument, fmt::format("{}: docker needs --image", bootstrap->source)));
    return;
  }
  container.image = image->values.back();
  if (!is_image(container.image))
    return reader.refuse(*image, "is not an image: give NAME, NAME:TAG or REGISTRY/NAME:TAG");
  reader.choice("pull", {{"missing", Pull::kMissing}, {"always", Pull::kAlways}, {"never", Pull::kNever}},
                container.pull);
  read_mounts(reader, here, container);
  read_limits(reader, container);
  reader.text("gpus", container.gpus);
  if (const Setting* gpus = reader.find("gpus"); gpus != nullptr && !are_gpus(container.gpus))
    return reader.refuse(*gpus, "does not name GPUs: give all, a number for each container, or device=0,1");
  reader.text("network", container.network);
  if (const Setting* network = reader.find("network");
      network != nullptr && !is_docker_name(container.network))
    return reader.refuse(*network, "is not a network: give the name of one that `docker network ls` shows");
  reader.text("container-user", container.user);
  if (const Setting* user = reader.find("container-user");
      user != nullptr && !is_container_user(container.user))
    return reader.refuse(*user, "is not a user: give UID, UID:GID, or a user name that the image has");
  reader.flag("read-only", container.read_only);
  read_arguments(reader, container);
}

std::vector<Mount> with_own_directories(std::vector<Mount> mounts,
                                        const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    const auto there = std::ranges::find(mounts, directory, &Mount::destination);
    if (directory.empty() || there != mounts.end()) continue;
    mounts.push_back({.source = directory, .destination = directory, .read_only = false});
  }
  return mounts;
}

Status check_for_scripts(const ContainerOptions& container) {
  const auto refused = [](std::string_view word) {
    return failure(ErrorCode::kInvalidArgument,
                   "--image: {} cannot be passed to `docker run` on the hosts: use a name without quotes, "
                   "backslashes, $, !, ` and commas",
                   one_line(std::string(word)));
  };
  for (const Mount& mount : container.mounts) {
    for (const std::string& path : {mount.source, mount.destination})
      if (!fits_script(path) || path.contains(',')) return refused(path);
  }
  for (const ContainerArgument& argument : container.arguments)
    if (!fits_script(argument.value)) return refused(argument.value);
  return {};
}

}  // namespace muster::launcher
