#include "launcher/io/settings/program_file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/program.h"
#include "common/wire/mpi_program.h"
#include "launcher/core/text/nearest.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

// Call if `path` does not exist. Returns a text such as ": did you mean ./train?", or "" if there is no
// similar file. It looks at files in the same directory that have this ending, and that this user may read or
// execute (`access_mode`).
std::string near_file(const std::string& path, std::string_view ending, int access_mode) {
  constexpr std::size_t kMostFiles = 10'000;
  const std::size_t folder_size = path.rfind('/') + 1;  // 0 where there is none
  const std::string folder = path.substr(0, folder_size);
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator next(folder.empty() ? "." : folder, error);
  for (; !error && next != std::filesystem::directory_iterator() && names.size() < kMostFiles;
       next.increment(error)) {
    std::string name = next->path().filename();
    std::error_code of_file;
    if (name.ends_with(ending) && next->is_regular_file(of_file) &&
        access(next->path().c_str(), access_mode) == 0)
      names.push_back(std::move(name));
  }
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const auto near = nearest(std::string_view(path).substr(folder_size), candidates);
  return near ? fmt::format(": did you mean {}{}?", folder, *near) : "";
}

Status check_script(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0)
    return failure(ErrorCode::kNotFound, "{}: not found{}", path, near_file(path, ".py", R_OK));
  if (S_ISDIR(status.st_mode)) return failure(ErrorCode::kPermission, "{}: is a directory", path);
  if (access(path.c_str(), R_OK) != 0)
    return failure(ErrorCode::kPermission, "{}: no permission to read it", path);
  return {};
}

// Returns a hint about the mistake that the user has probably made. `name` was not found.
std::string hint_about(const std::string& name) {
  if (name.find_first_of(" ;|&<>") != std::string::npos)
    return fmt::format(": a shell command line needs `sh -c {}`", as_shell_word(name));
  if (name.starts_with('-')) return ": give the program first, then its arguments";
  if (name.contains('/')) return near_file(name, "", X_OK);
  switch (look_up_program("./" + name, "", "").error) {
    case 0: return fmt::format(": did you mean ./{}?", name);
    case EISDIR: return ": here it is a directory";
    case EACCES:
      return fmt::format(": here it is a file that is not executable (if it is a program: chmod +x {})",
                         as_shell_word(name));
    default: return "";
  }
}

Status check_executable(const std::string& name, const std::string& search_path) {
  const FoundProgram found = look_up_program(name, search_path, "");
  if (found.error == 0) return {};
  const bool in_path = name.find('/') == std::string::npos;
  if (found.error == EISDIR) return failure(ErrorCode::kPermission, "{}: is a directory", name);
  if (found.error != ENOENT) {
    return failure(ErrorCode::kPermission, "{}: {}not executable (if it is a program: chmod +x {})", name,
                   in_path ? "found in PATH, but " : "", as_shell_word(found.path));
  }
  const std::string hint = hint_about(name);
  if (!in_path) return failure(ErrorCode::kNotFound, "{}: not found{}", name, hint);
  return failure(ErrorCode::kNotFound, "{}: not found in PATH{}", name, hint);
}

}  // namespace

Status check_program(const std::vector<std::string>& command, const std::string& search_path) {
  if (Status executable = check_executable(command.front(), search_path); !executable) return executable;
  // A plan starts a script as `python3 -u FILE`.
  if (command.size() > 2 && command[1] == "-u" && command[2].ends_with(".py"))
    return check_script(command[2]);
  return {};
}

namespace {

// Returns the first operand of Python if that is a .py file. `-m mpi4py train.py` runs train.py.
std::string script_of_python(const std::vector<std::string>& command) {
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    const bool of_mpi4py = word == "-m" && i + 1 < command.size() && command[i + 1] == "mpi4py";
    if (of_mpi4py || word == "-X" || word == "-W") {
      ++i;  // the option's value
    } else if (word == "-m" || word == "-c" || !word.starts_with('-')) {
      return word.ends_with(".py") ? word : "";
    }
  }
  return "";
}

}  // namespace

std::string script_of(const std::vector<std::string>& command, const std::string& search_path) {
  const std::string& program = command.front();
  if (std::string_view(program).substr(program.rfind('/') + 1).starts_with("python")) {
    return script_of_python(command);
  }
  const FoundProgram found = look_up_program(program, search_path, "");
  return found.error == 0 ? found.path : "";
}

std::optional<wire::Mpi> mpi_of_file(const std::vector<std::string>& command,
                                     const std::string& search_path) {
  const FoundProgram found = look_up_program(command.front(), search_path, "");
  if (found.error != 0) return std::nullopt;
  const UniqueFd file(open(found.path.c_str(), O_RDONLY | O_CLOEXEC));
  return file ? std::optional(wire::mpi_of_program(reader_of(file))) : std::nullopt;
}

}  // namespace muster::launcher
