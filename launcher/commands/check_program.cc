// Checks the program, the torch that it would use, and the GPUs.
#include <dlfcn.h>
#include <fcntl.h>

#include "common/base/elf_file.h"
#include "common/base/file.h"
#include "common/base/program.h"
#include "common/base/python_torch.h"
#include "common/base/text.h"
#include "launcher/commands/captured_run.h"
#include "launcher/commands/checks.h"
#include "launcher/io/settings/program_file.h"

namespace muster::launcher {

namespace {

using enum Finding::Result;

constexpr Duration kRunLimit = std::chrono::seconds(20);

std::string path_variable(const Prepared& prepared, const Surroundings& here) {
  return variable_of(prepared.plan, here, "PATH").value_or("/usr/bin:/bin");
}

// Returns the environment of the workers. The variables that an agent adds for each rank are missing.
std::vector<std::string> environment_of(const Prepared& prepared, const Surroundings& here) {
  Environment merged = here.environment;
  for (const auto& [name, value] : prepared.plan.job.environment) merged[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : merged) entries.push_back(name + "=" + value);
  return entries;
}

Finding check_python_torch(const std::string& python, bool needed, const Prepared& prepared,
                           const Surroundings& here) {
  const FoundProgram found = look_up_program(python, path_variable(prepared, here), "");
  const bool chosen = prepared.plan.chose_python || !prepared.request.has_program;
  const std::string advice =
      fmt::format("activate the environment that has torch, or {}",
                  chosen ? "name its python in PYTHON_EXEC" : "give the path of its python in the command");
  if (found.error != 0)
    return {needed ? kFail : kWarn, "torch", fmt::format("{} not found in PATH", python), advice};
  const auto asked =
      run_captured({found.path, "-c", kAskForTorch}, environment_of(prepared, here), kRunLimit);
  if (!asked) return {kWarn, "torch", asked.error().message(), advice};
  const auto torch = torch_in(asked->out);
  if (asked->exit_code != 0 || !torch)
    return {kWarn, "torch", fmt::format("{} does not say which torch it has", found.path), advice};
  if (torch->empty()) {
    const bool wanted = needed && script_imports_torch(prepared.plan.job.command, here.working_directory);
    return {wanted ? kFail : kWarn, "torch",
            fmt::format("{} has no torch{}", found.path, wanted ? ", which the script imports" : ""), advice};
  }
  return {kOk, "torch", fmt::format("torch {} in {}", *torch, found.path)};
}

Finding judge_libraries(const std::string& listed) {
  std::string torch;
  for (const std::string_view line : split(listed, '\n')) {
    const std::size_t name = line.find_first_not_of(" \t");
    if (name == std::string_view::npos) continue;
    if (line.find("=> not found") != std::string_view::npos)
      return {kFail, "torch", fmt::format("{}", line.substr(name)),
              "set LD_LIBRARY_PATH to its directory (--env LD_LIBRARY_PATH=DIR), or link with an rpath"};
    const std::size_t arrow = line.find("=> ");
    if (line.substr(name).starts_with("libtorch_cpu.so") && arrow != std::string_view::npos)
      torch = line.substr(arrow + 3, line.find(" (") - arrow - 3);
  }
  return {kOk, "torch",
          torch.empty() ? "the program does not link LibTorch" : fmt::format("LibTorch: {}", torch)};
}

std::string cuda_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "libcuda.so.1 not found";
  const auto get_version = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != 0) return "libcuda.so.1 does not say its version";
  return fmt::format("driver for CUDA {}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

std::string python_of(const Surroundings& here) {
  const auto named = here.environment.find("PYTHON_EXEC");
  return named == here.environment.end() || named->second.empty() ? "python3" : named->second;
}

Finding check_program_file(const Prepared& prepared, const Surroundings& here) {
  const std::vector<std::string>& command = prepared.plan.job.command;
  const Status found = check_program(command, path_variable(prepared, here));
  if (found) {
    const bool is_script = command.size() > 2 && command[2] == prepared.request.options.program.front();
    return {kOk, "program",
            is_script ? fmt::format("{} is readable, and {} is executable", command[2], command.front())
                      : fmt::format("{} is executable", command.front())};
  }
  return {kFail, "program", found.error().message(), "give the path of a program or a script"};
}

Finding check_torch(const Prepared& prepared, const Surroundings& here) {
  if (!prepared.request.has_program) return check_python_torch(python_of(here), false, prepared, here);
  const std::string& program = prepared.plan.job.command.front();
  if (is_python(program)) return check_python_torch(program, true, prepared, here);
  const FoundProgram found = look_up_program(program, path_variable(prepared, here), "");
  if (found.error != 0) return {kOk, "torch", "not checked: the program was not found"};
  const UniqueFd file(open(found.path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string loader = elf_loader(reader_of(file));
  if (loader.empty()) return {kOk, "torch", "not checked: the program is a script, or loads no libraries"};
  const auto listed = run_captured({loader, "--list", found.path}, environment_of(prepared, here), kRunLimit);
  if (!listed) return {kWarn, "torch", listed.error().message(), "inspect it with ldd"};
  return judge_libraries(listed->out);
}

std::optional<Finding> check_py_spy(const Prepared& prepared, const Surroundings& here) {
  const std::string& program = prepared.plan.job.command.front();
  if (!prepared.request.has_program || !is_python(program)) return std::nullopt;
  const auto found = look_up_beside(program, "py-spy", path_variable(prepared, here), here.working_directory);
  if (found) return Finding{kOk, "py-spy", *found};
  return Finding{
      kWarn, "py-spy",
      "not installed: without `import muster`, `launch dump` and reports of hangs show no Python frames, "
      "and without `muster.step` a hang is not noticed",
      "pip install py-spy"};
}

Finding check_gpus(const Prepared& prepared) {
  const Options& options = prepared.request.options;
  if (options.device == Device::kCpu) return {kOk, "GPUs", "none needed (--device cpu)"};
  const Machine& machine = prepared.machine;
  if (machine.gpu_count == 0)
    return {kWarn, "GPUs", fmt::format("none: {}; {}", machine.gpu_note, cuda_driver()),
            "workers will run on the CPU; if you intend that, give --device cpu"};
  const std::int32_t workers = prepared.plan.world_size();
  if (workers > machine.gpu_count && !options.share_gpus)
    return {kWarn, "GPUs",
            fmt::format("{} GPUs for {} workers; {}", machine.gpu_count, workers, cuda_driver()),
            "start fewer workers, or give --share-gpus; as it is, each worker sees all GPUs"};
  return {kOk, "GPUs", fmt::format("{}; {}", machine.gpu_count, cuda_driver())};
}

}  // namespace muster::launcher
