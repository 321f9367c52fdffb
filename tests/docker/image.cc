#include "tests/docker/image.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <string_view>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/file.h"

namespace muster::docker {

namespace {

namespace fs = std::filesystem;

// The Python of the image `python`, which is Debian 12's.
constexpr const char* kPythonVersion = "python3.11";

// The directory of torch and numpy; empty: torch is not in a Python package.
constexpr std::string_view kTorchPackages = MUSTER_TORCH_PACKAGES;

constexpr const char* kQuiet =
    "mmdebstrap --quiet --aptopt='Apt::Install-Recommends \"false\"' --aptopt='Acquire::Languages \"none\"' ";

// Only unpacks packages. Leaves out Debian's essential packages, since some need libssl.
constexpr const char* kSmall =
    "--variant=extract --include=base-files,bash,busybox"
    " --setup-hook='cd \"$1\" && mkdir -p usr/bin usr/sbin usr/lib usr/lib64 &&"
    " ln -s usr/bin usr/sbin usr/lib usr/lib64 .'"
    " --extract-hook='cd \"$1\" && applets=$(chroot . busybox --list) && for name in $applets; do"
    " test -e usr/bin/$name || ln -s busybox usr/bin/$name; done &&"
    " echo root:x:0:0:root:/root:/bin/bash >etc/passwd && echo root:x:0: >etc/group &&"
    " rm -rf usr/share/doc usr/share/man usr/share/locale usr/share/info var/lib/apt/lists/*' ";

constexpr const char* kWithPython =
    "--variant=minbase --include=python3,libstdc++6,ca-certificates,iproute2,procps"
    " --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*'"
    " --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*'"
    " --customize-hook='rm -rf \"$1\"/var/lib/apt/lists/* \"$1\"/var/cache/apt/*.bin' ";

constexpr const char* kWithSshd =
    "--variant=minbase --include=openssh-server"
    " --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*'"
    " --dpkgopt='path-exclude=/usr/share/locale/*'"
    " --customize-hook='rm -rf \"$1\"/var/lib/apt/lists/* \"$1\"/var/cache/apt/*.bin' ";

// Uses the mirror of this machine's apt; if apt does not name one, mmdebstrap uses its default.
std::string recipe(const std::string& name) {
  const bool bookworm = name == "python" || name == "sshd";
  CHECK(bookworm || name == "bookworm" || name == "trixie" || name == "bullseye", "unknown image '{}'", name);
  const char* const packages = name == "python" ? kWithPython : name == "sshd" ? kWithSshd : kSmall;
  return fmt::format(
      "uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Component: "
      "main' |"
      " grep -v security | head -n 1); {0}{1}{2} \"$file\" ${{uri:+\"deb $uri {2} main\"}}",
      kQuiet, packages, bookworm ? "bookworm" : name);
}

std::string cache() {
  if (const char* base = std::getenv("XDG_CACHE_HOME"); base != nullptr && *base == '/')
    return fmt::format("{}/muster/images", base);
  const char* home = std::getenv("HOME");
  CHECK(home != nullptr, "HOME is not set");
  return fmt::format("{}/.cache/muster/images", home);
}

std::string mount_at(std::string_view target) {
  CHECK(why_no_torch_mount().empty(), "{}", why_no_torch_mount());
  return fmt::format("{}:{}:ro", kTorchPackages, target);
}

}  // namespace

std::string base_image(const std::string& name) {
  const std::string command = recipe(name);
  const std::string directory = cache();
  CHECK(make_directories(directory).has_value(), "cannot make {}", directory);
  // The file's name depends on the recipe, so that an image of an older recipe is not used.
  const std::string path = fmt::format("{}/{}-{:x}.tar", directory, name, std::hash<std::string>()(command));
  const UniqueFd lock(
      open(fmt::format("{}/{}.lock", directory, name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  CHECK(lock && flock(lock.get(), LOCK_EX) == 0, "{}: {}", directory, std::strerror(errno));
  if (fs::exists(path)) return path;
  const std::string half = fmt::format("{}/{}.half.tar", directory, name);
  const std::string said = fmt::format("{}/{}.log", directory, name);
  const int status = std::system(fmt::format("file='{}'; {{ {}; }} >'{}' 2>&1", half, command, said).c_str());
  CHECK(status == 0, "mmdebstrap cannot make {}: {}", name, read_file(said, 1 << 20).value_or(""));
  fs::rename(half, path);
  return path;
}

std::string why_no_torch_mount() {
  if (kTorchPackages.empty()) return "this build knows no Python package of torch";
  if (!kTorchPackages.contains(fmt::format("/{}/", kPythonVersion)))
    return fmt::format("torch in {} is not for {}", kTorchPackages, kPythonVersion);
  return "";
}

std::string torch_mount() {
  return mount_at(fmt::format("/usr/local/lib/{}/dist-packages", kPythonVersion));
}

std::string libtorch_mount() {
  return mount_at(kTorchPackages);
}

}  // namespace muster::docker
