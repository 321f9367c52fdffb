#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/ranges.h>
#include <set>
#include <stdexcept>

#include "runtime/data/datasets/column_file.h"
#include "runtime/rank/loaded_torch.h"

namespace muster {

namespace {

#ifdef MUSTER_PYARROW_MAJOR

namespace fs = std::filesystem;

constexpr const char* kFolderVariable = "MUSTER_PYARROW_DIR";

// Returns the pyarrow packages at `place`. `place` can be the package itself, a site-packages folder, or
// a virtual environment.
std::vector<fs::path> packages_in(const fs::path& place) {
  std::vector<fs::path> found;
  std::error_code ignored;
  std::vector<fs::path> candidates{place, place / "pyarrow"};
  for (fs::directory_iterator each(place / "lib", ignored), end; !ignored && each != end;
       each.increment(ignored))
    for (const char* packages : {"site-packages", "dist-packages"})
      candidates.push_back(each->path() / packages / "pyarrow");
  for (const fs::path& candidate : candidates)
    if (fs::exists(candidate / "__init__.py", ignored)) found.push_back(candidate);
  return found;
}

std::vector<fs::path> packages() {
  std::vector<fs::path> found;
  const auto add = [&found](const fs::path& place) {
    for (fs::path& each : packages_in(place)) found.push_back(std::move(each));
  };
  if (const char* const named = std::getenv(kFolderVariable); named != nullptr && *named != 0) {
    add(named);
    if (found.empty())
      throw std::runtime_error(
          fmt::format("{}={} must be pyarrow's folder or an environment with pyarrow, "
                      "which reads Parquet and Arrow files",
                      kFolderVariable, named));
    return found;
  }
  // torch's path ends in torch/lib/libtorch_cpu.so. pyarrow's folder can be next to torch's.
  add(fs::path(path_of_torch()).parent_path().parent_path().parent_path());
  if (const char* const environment = std::getenv("VIRTUAL_ENV")) add(environment);
  add(MUSTER_PYARROW_FOLDER);
  return found;
}

// Returns a text with the versions of pyarrow that are in these folders. They are found by a file's name: for
// example, pyarrow 26 has libparquet.so.2600.
std::string versions_in(const std::vector<fs::path>& folders) {
  constexpr std::string_view kName = "libparquet.so.";
  std::set<std::string> said;
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    for (fs::directory_iterator each(folder, ignored), end; !ignored && each != end;
         each.increment(ignored)) {
      const std::string name = each->path().filename();
      if (name.starts_with(kName) && name.size() > kName.size() + 2)
        said.insert(fmt::format("pyarrow {} in {}", name.substr(kName.size(), name.size() - kName.size() - 2),
                                folder.string()));
    }
  }
  return said.empty() ? "" : fmt::format("; there is {}", fmt::join(said, ", "));
}

OpenColumnFile* load() {
  const std::vector<fs::path> folders = packages();
  const std::string wanted = fmt::format("libparquet.so.{}00", MUSTER_PYARROW_MAJOR);
  void* library = nullptr;
  std::string why;
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    if (!fs::exists(folder / wanted, ignored)) continue;
    library = dlopen((folder / wanted).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    why = fmt::format(": {}", dlerror());
  }
  if (library == nullptr)
    throw std::runtime_error(fmt::format(
        "reading Parquet and Arrow files needs pyarrow {0}, with which this Muster was built{1}{2}: "
        "pip install 'pyarrow=={0}.*' next to torch, or set {3} to its folder",
        MUSTER_PYARROW_MAJOR, why, why.empty() ? versions_in(folders) : "", kFolderVariable));
  constexpr const char* kModule = "libmuster_parquet.so";
  void* const module = dlopen(kModule, RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr)
    throw std::runtime_error(fmt::format(
        "cannot load {}: {} (it is in the folder lib of Muster's installation; add that to LD_LIBRARY_PATH)",
        kModule, dlerror()));
  auto* const open = reinterpret_cast<OpenColumnFile*>(dlsym(module, kOpenColumnFile));
  if (open == nullptr)
    throw std::runtime_error(fmt::format("{} belongs to another version of Muster", kModule));
  return open;
}

#else

OpenColumnFile* load() {
  throw std::runtime_error(
      "reading Parquet and Arrow files needs pyarrow, and this Muster was built without it: "
      "build Muster in an environment that has pyarrow");
}

#endif

}  // namespace

std::unique_ptr<ColumnFile> open_column_file(const std::string& path,
                                             const std::vector<std::string>& columns) {
  static OpenColumnFile* const open = load();
  return std::unique_ptr<ColumnFile>(open(path, columns));
}

}  // namespace muster
