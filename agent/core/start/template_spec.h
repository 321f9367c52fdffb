// Decides how a template is executed, which ranks may be forked from it, and what it tells the forked ranks.
//
// A template is a process that has loaded the program once; a node keeps it over attempts, and forks ranks
// from it. See docs/warm_start.md. Pure: facts about files are passed in.
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

// Two templates with equal specs are interchangeable.
struct TemplateSpec {
  std::string program;  // a path
  FileIdentity file;
  std::vector<std::string> arguments;       // of the template
  std::vector<std::string> rank_arguments;  // of the ranks that can be forked from it
  // How many of a rank's first arguments must equal the template's. Nothing if the program may be a wrapper,
  // such as a shell: the arguments of a wrapper are not those of the program that calls init().
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

// Returns the spec of the template for the node's ranks in this attempt. The error says in one clause why
// there is no template; it is empty if no template was requested.
std::expected<TemplateSpec, std::string> wanted_template(const ProgramFacts& program, const NodeContext& node,
                                                         const wire::JobSpec& job,
                                                         const wire::PrepareAttempt& plan);

// Returns the command of a Python template: `python3 -u train.py --lr 1` becomes
// `python3 -u RUNNER train.py --lr 1`. Returns an empty command if `command` runs neither a script nor a
// module.
std::vector<std::string> python_template_command(const std::vector<std::string>& command,
                                                 const std::string& runner);

// Whether libraries read this variable while they load: changing it afterwards has no effect.
bool is_read_while_loading(std::string_view variable);

// Whether a template with the spec `loaded` can fork the ranks of a job that wants the spec `wanted`.
bool can_serve(const TemplateSpec& loaded, const TemplateSpec& wanted, bool takes_arguments);

// Returns the order that turns a fork of the template into the rank with these arguments and this
// environment. The error says in one clause why the rank must be executed instead.
std::expected<ForkOrder, std::string> order_for(const TemplateSpec& spec, bool takes_arguments,
                                                const std::vector<std::string>& arguments,
                                                const Environment& environment);

}  // namespace muster::agent
