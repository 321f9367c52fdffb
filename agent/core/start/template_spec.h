// Decides how a template is executed, which ranks may be forked from it, and which order it then gets.
//
// A template is a process that has loaded the program once. A node keeps its template over several attempts,
// and forks ranks from it. See docs/warm_start.md. Pure: facts about files are passed in.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/core/start/environment.h"
#include "common/base/template_socket.h"

namespace muster::agent {

// Identifies the file at a program's path.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size_bytes = 0;
  std::int64_t modified_ns = 0;
  bool operator==(const FileIdentity&) const = default;
};

// Describes a template. If two templates have equal specs, either can serve in place of the other.
struct TemplateSpec {
  std::string program;  // a path
  FileIdentity file;
  std::vector<std::string> arguments;       // of the template
  std::vector<std::string> rank_arguments;  // of the ranks that can be forked from it
  // How many of a rank's first arguments must be the same as the template's. Empty if the program may be a
  // wrapper, such as a shell. The arguments of a wrapper are not those of the program that calls init().
  std::optional<std::size_t> fixed_words = {};
  Environment environment;
  std::string working_directory;
  bool operator==(const TemplateSpec&) const = default;
};

// The facts about the program's file (io/workers/program.h).
struct ProgramFacts {
  std::string path;
  FileIdentity file;
  bool has_note = false;      // the ELF note of Muster::warm_start
  std::string python_runner;  // its path; empty: not found
};

// Returns the spec of the template for the ranks of this node in this attempt. If there is no template, the
// error says why, in one clause. The error is empty if nobody asked for a template.
std::expected<TemplateSpec, std::string> wanted_template(const ProgramFacts& program, const NodeContext& node,
                                                         const wire::JobSpec& job,
                                                         const wire::PrepareAttempt& plan);

// Returns the command that starts a Python template. For example, `python3 -u train.py --lr 1` becomes
// `python3 -u RUNNER train.py --lr 1`. If `command` runs neither a script nor a module, returns an empty
// command.
std::vector<std::string> python_template_command(const std::vector<std::string>& command,
                                                 const std::string& runner);

// Returns whether libraries read this variable while they load. If they do, a later change of the variable
// has no effect.
bool is_read_while_loading(std::string_view variable);

// Returns whether a template can serve a job. `loaded` is the spec of the template, and `wanted` is the spec
// that the job wants. `takes_arguments` says that ranks can have other arguments than the template.
bool can_serve(const TemplateSpec& loaded, const TemplateSpec& wanted, bool takes_arguments);

// Returns an order for the template. When the template gets the order, it forks, and the fork becomes the
// rank with these arguments and this environment. If that is not possible, the rank must be executed instead,
// and the error says why, in one clause.
std::expected<ForkOrder, std::string> order_for(const TemplateSpec& spec, bool takes_arguments,
                                                const std::vector<std::string>& arguments,
                                                const Environment& environment);

}  // namespace muster::agent
