#include "agent/io/workers/program.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/start/elf_note.h"
#include "agent/core/start/start_failure.h"
#include "common/base/file.h"
#include "common/base/program.h"

namespace muster::agent {

std::string search_path(const Environment& inherited, const wire::JobSpec& job) {
  for (const auto* given : {&job.environment, &job.inherited}) {
    if (const auto path = given->find("PATH"); path != given->end()) return path->second;
  }
  const auto found = inherited.find("PATH");
  return found != inherited.end() ? found->second : "/usr/local/bin:/usr/bin:/bin";
}

Expected<std::string> find_program(const std::string& name, const std::string& search_path,
                                   const std::string& working_directory) {
  FoundProgram found = look_up_program(name, search_path, working_directory);
  if (found.error == 0) return std::move(found.path);
  if (found.error == ENOENT && name.find('/') == std::string::npos)
    return failure(ErrorCode::kNotFound, "cannot find the program '{}' in PATH", name);
  return failure(found.error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kPermission,
                 "cannot execute {}: {}", found.path, std::strerror(found.error));
}

Status check_script(const wire::JobSpec& job) {
  const std::string script = script_of(job);
  if (script.empty()) return {};
  const std::string path = path_from(job.working_directory, script);
  if (access(path.c_str(), R_OK) == 0) return {};
  return failure(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kPermission,
                 "cannot read the script {}: {}", path, std::strerror(errno));
}

Expected<std::string> find_program_of(const wire::JobSpec& job, const std::string& search_path) {
  auto program =
      find_program(job.command.empty() ? "" : job.command.front(), search_path, job.working_directory);
  if (!program) return program;
  if (Status readable = check_script(job); !readable) return std::unexpected(readable.error());
  return program;
}

namespace {

const std::string& python_runner() {
  static const std::string path = [] {
    std::error_code error;
    const auto runner = beside_own_program(MUSTER_PYTHON_RUNNER);
    return runner && std::filesystem::exists(*runner, error) ? *runner : "";
  }();
  return path;
}

}  // namespace

ProgramFacts facts_of_program(const std::string& path) {
  ProgramFacts facts{.path = path, .file = {}, .python_runner = python_runner()};
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!fd || fstat(fd.get(), &status) < 0) return facts;
  facts.file = {.device = status.st_dev,
                .inode = status.st_ino,
                .size_bytes = status.st_size,
                .modified_ns = status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
  const std::string interpreter = interpreter_of(reader_of(fd));
  const UniqueFd target(interpreter.empty() ? -1 : open(interpreter.c_str(), O_RDONLY | O_CLOEXEC));
  facts.has_note = has_warm_note(reader_of(target ? target : fd));
  return facts;
}

}  // namespace muster::agent
