#include "launcher/core/verdict/exception_text.h"

#include <algorithm>
#include <cctype>
#include <fmt/core.h>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "launcher/core/text/plain_text.h"

namespace muster::launcher {

namespace {

using TextLines = std::vector<std::string>;

constexpr std::string_view kThrown = "terminate called after throwing an instance of '";
constexpr std::string_view kWhat = "  what():  ";
// A launcher uses this text to say that one of its ranks has failed. The program of a rank can itself be a
// launcher.
constexpr std::string_view kLaunchFailed = "launch: failed after ";
constexpr std::string_view kChildFailed = "ChildFailedError";
constexpr std::size_t kDeepestGroup = 10;

struct PythonFrame {
  std::string path;
  std::string line;
};

// Reads a line such as `  File "/home/me/train.py", line 6, in main`. For a SyntaxError, the line ends after
// the number.
std::optional<PythonFrame> frame_in(std::string_view line) {
  constexpr std::string_view kFile = "  File \"";
  constexpr std::string_view kLine = "\", line ";
  const std::size_t end = line.find(kLine);
  if (!line.starts_with(kFile) || end == std::string_view::npos) return {};
  const std::string_view rest = line.substr(end + kLine.size());
  const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  if (digits == 0 || !(digits == rest.size() || rest.substr(digits).starts_with(", in "))) return {};
  return PythonFrame{std::string(line.substr(kFile.size(), end - kFile.size())),
                     std::string(rest.substr(0, digits))};
}

bool is_of_library(const PythonFrame& frame) {
  constexpr std::string_view kLibraries[] = {"/site-packages/", "/dist-packages/", "/lib/python3",
                                             "<frozen "};
  return std::ranges::any_of(kLibraries, [&](std::string_view each) { return frame.path.contains(each); });
}

std::string place_of(const std::vector<PythonFrame>& frames) {
  if (frames.empty()) return {};
  auto place = std::find_if_not(frames.rbegin(), frames.rend(), is_of_library);
  if (place == frames.rend()) place = frames.rbegin();
  return fmt::format(" ({}:{})", place->path.substr(place->path.rfind('/') + 1), place->line);
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t") == std::string_view::npos;
}

// A line such as "package.Error: text" or "Error" begins with the name of a type. Returns the size of this
// name. Returns 0 for other lines.
std::size_t type_size(std::string_view line) {
  const auto of_name = [](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 || c == '_' || c == '.' || c == '<' || c == '>';
  };
  const auto size = static_cast<std::size_t>(std::ranges::find_if_not(line, of_name) - line.begin());
  if (size == 0 || std::isdigit(static_cast<unsigned char>(line[0])) != 0) return 0;
  return size == line.size() || line[size] == ':' ? size : 0;
}

bool is_of_syntax(std::string_view type) {
  return type == "SyntaxError" || type == "IndentationError" || type == "TabError";
}

// Returns a text such as "Type: text". If the message begins with empty lines, the text is taken from `rest`.
std::string type_and_text(std::string_view type, std::string_view text, std::span<const std::string> rest) {
  for (std::size_t i = 0; is_blank(text) && i < rest.size(); ++i) text = rest[i];
  if (is_blank(text)) return std::string(type);
  text.remove_prefix(text.find_first_not_of(" \t"));
  return fmt::format("{}: {}", type, text);
}

// Finds the root cause in the lines of torchrun's ChildFailedError. Returns the first line of the root cause
// that begins with `field`, and all lines after that line. Returns an empty span if there is no such line.
std::span<const std::string> root_cause(std::span<const std::string> lines, std::string_view field) {
  const auto begins = [](std::string_view with) {
    return [with](const std::string& line) { return line.starts_with(with); };
  };
  const auto cause = std::ranges::find_if(lines, begins("Root Cause "));
  return {std::find_if(cause, lines.end(), begins(field)), lines.end()};
}

// Returns the exception or the signal of the rank. Returns "" if it was not recorded.
std::string cause_of_child(std::span<const std::string> lines) {
  constexpr std::string_view kTraceback = "  traceback : ";
  const auto recorded = root_cause(lines, kTraceback);
  if (recorded.empty()) return {};
  TextLines text{recorded.front().substr(kTraceback.size())};
  for (const std::string& line : recorded.subspan(1)) {
    if (!line.starts_with("  ")) break;
    text.push_back(line.substr(2));
  }
  if (const std::string_view first = text.front(); first.starts_with("Signal "))
    return std::string(first.substr(0, first.find(" by PID ")));
  return exception_in(text);
}

// "exit code 3"
std::string code_of_child(std::span<const std::string> lines) {
  constexpr std::string_view kExitCode = "  exitcode  : ";
  const auto exited = root_cause(lines, kExitCode);
  if (exited.empty()) return {};
  const std::string_view code = std::string_view(exited.front()).substr(kExitCode.size());
  return fmt::format("exit code {}", code.substr(0, code.find(' ')));
}

// `python3 -m MODULE` prints no traceback if it does not find the module, but one of these lines:
//   /usr/bin/python3: No module named train
//   /usr/bin/python3: Error while finding module specification for 'a.b' (ModuleNotFoundError: ...)
// Returns the exception. Returns "" for other lines.
std::string module_not_found(std::string_view line) {
  constexpr std::string_view kNone = "No module named ";
  constexpr std::string_view kSought = "Error while finding module specification for ";
  const std::string_view program = line.substr(0, line.find(": "));
  if (!program.substr(program.rfind('/') + 1).starts_with("python")) return {};  // npos + 1 is 0
  const std::string_view text = line.substr(std::min(program.size() + 2, line.size()));
  if (text.starts_with(kNone)) return fmt::format("ModuleNotFoundError: {}", text);
  const std::size_t at = text.find("(ModuleNotFoundError: ");
  if (!text.starts_with(kSought) || at == std::string_view::npos || !text.ends_with(')')) return {};
  return std::string(text.substr(at + 1, text.size() - at - 2));
}

class ExceptionSearch {
 public:
  // Reads one line. `rest` are the lines that follow it.
  void read(const std::string& line, std::span<const std::string> rest) {
    if (line.starts_with(kThrown)) {
      thrown_in_cxx(line, rest);
    } else if (line.starts_with(kLaunchFailed)) {
      launch_failed(line);
    } else if (const auto frame = frame_in(line)) {
      frames_.push_back(*frame);
    } else if (!line.starts_with(' ')) {
      if (!frames_.empty()) raised_in_python(line, rest);
      if (rest.empty() && found_.empty()) found_ = module_not_found(line);
      frames_.clear();
      traced_ = line.ends_with("Traceback (most recent call last):");
      // After this line comes a traceback that does not end the program.
      if (line.starts_with("Exception ignored ")) ignored_ = true;
    }
  }
  std::string found() const { return found_.empty() ? "" : shortened(found_) + place_; }

 private:
  void thrown_in_cxx(std::string_view line, std::span<const std::string> rest) {
    const std::string_view type = line.substr(kThrown.size(), line.rfind('\'') - kThrown.size());
    const bool has_what = !rest.empty() && rest.front().starts_with(kWhat);
    found_ = has_what
                 ? type_and_text(type, std::string_view(rest.front()).substr(kWhat.size()), rest.subspan(1))
                 : std::string(type);
    place_.clear();
    frames_.clear();
  }
  // Reads a line such as "launch: failed after 2.5 s: rank 0 (node0) exited with code 3".
  void launch_failed(std::string_view line) {
    const std::size_t colon = line.find(": ", kLaunchFailed.size());
    if (colon == std::string_view::npos) return;
    found_ = fmt::format("launch: {}", line.substr(colon + 2));
    place_.clear();
    frames_.clear();
  }
  void raised_in_python(std::string_view line, std::span<const std::string> rest) {
    const std::string_view type = line.substr(0, type_size(line));
    // A call stack without the heading of a traceback does not show an exception: the program has printed the
    // stack, and then went on. Only a SyntaxError ends the program without this heading.
    if (type.empty() || !(traced_ || is_of_syntax(type)) || std::exchange(ignored_, false)) return;
    if (type.ends_with(kChildFailed)) return child_failed(rest);
    const bool has_text = type.size() < line.size();
    found_ = has_text ? type_and_text(type, line.substr(type.size() + 1), rest) : std::string(type);
    place_ = place_of(frames_);
  }

  // If torchrun has recorded no cause, this keeps what was found before. The failed rank has usually printed
  // its exception.
  void child_failed(std::span<const std::string> rest) {
    if (std::string cause = cause_of_child(rest); !cause.empty()) {
      found_ = std::move(cause);
      place_.clear();  // the cause has its own
    }
    if (found_.empty()) found_ = code_of_child(rest);
    found_ = found_.empty() ? kChildFailed : fmt::format("{}: {}", kChildFailed, found_);
  }

  std::vector<PythonFrame> frames_;  // of the current traceback
  bool traced_ = true;               // the heading was seen, or may be among the missing lines
  bool ignored_ = false;
  std::string found_;
  std::string place_;
};

std::string without_prefix(std::string line) {
  constexpr std::string_view kRank = "[rank";
  if (!line.starts_with(kRank)) return line;
  const std::size_t end = line.find_first_not_of("0123456789", kRank.size());
  if (end == kRank.size() || !std::string_view(line).substr(std::min(end, line.size())).starts_with("]:"))
    return line;
  line.erase(0, line.find_first_not_of(' ', end + 2) == end + 2 ? end + 2 : end + 3);
  return line;
}

// The lines of an exception group have a margin. It is "  | " in the group's own traceback, and two columns
// further in the tracebacks of its members. Removes the margins that begin at `column`. Drops lines with a
// margin elsewhere, and keeps lines without a margin.
TextLines without_margin(const TextLines& lines, std::size_t column) {
  TextLines kept;
  for (const std::string& line : lines) {
    const std::size_t at = line.find_first_not_of(' ');
    const std::string_view text = std::string_view(line).substr(std::min(at, line.size()));
    const bool has_margin = at >= 2 && at % 2 == 0 &&
                            (text.starts_with("| ") || text.starts_with("+-") || text.starts_with("+ Exc"));
    if (!has_margin) {
      kept.push_back(line);
    } else if (at == column && text[1] == ' ') {
      kept.emplace_back(text.substr(2));
    }
  }
  return kept;
}

}  // namespace

std::string shortened(std::string_view text) {
  std::string line = for_terminal(text.substr(0, text.find('\n')), /*color=*/false);
  if (line.size() <= kMaxExceptionBytes) return line;
  return std::string(beginning_of(line, kMaxExceptionBytes)) + " ...";
}

std::string_view mistake_in_script(std::string_view exception) {
  constexpr std::string_view kMistakes[] = {"SyntaxError",
                                            "IndentationError",
                                            "TabError",
                                            "ImportError",
                                            "ModuleNotFoundError",
                                            "zipimport.ZipImportError",
                                            "importlib.metadata.PackageNotFoundError",
                                            "NameError",
                                            "UnboundLocalError",
                                            "AttributeError",
                                            "dataclasses.FrozenInstanceError",
                                            "TypeError"};
  const std::string_view type = exception.substr(0, exception.find_first_of(": "));
  return std::ranges::find(kMistakes, type) == std::end(kMistakes) ? "" : type;
}

std::string exception_in(std::span<const std::string> lines) {
  TextLines plain;
  for (const std::string& line : lines) plain.push_back(without_prefix(for_terminal(line, /*color=*/false)));
  for (std::size_t depth = 1; depth <= kDeepestGroup; ++depth) {
    const TextLines kept = without_margin(plain, 2 * depth);
    ExceptionSearch search;
    for (std::size_t i = 0; i < kept.size(); ++i) search.read(kept[i], std::span(kept).subspan(i + 1));
    if (!search.found().empty()) return search.found();
  }
  return {};
}

}  // namespace muster::launcher
