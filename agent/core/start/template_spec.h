// What a template is executed with, which ranks may be forked from it, and what is then said to them.
//
// A template is the program, loaded once on a node and kept over attempts; docs/warm_start.md says what it is
// for. Pure: facts about files are passed in.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/core/start/environment.h"

namespace muster::agent {

// The file that a program's path stood for.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size_bytes = 0;
  std::int64_t modified_ns = 0;
  bool operator==(const FileIdentity&) const = default;
};

// Templates of one spec are interchangeable.
struct TemplateSpec {
  std::string program;  // a path
  FileIdentity file;
  std::vector<std::string> arguments;       // of the template
  std::vector<std::string> rank_arguments;  // of the ranks that it stands for
  Environment environment;
  std::string working_directory;
  bool operator==(const TemplateSpec&) const = default;
};

// What was found out about the program's file (io/workers/program.h).
struct ProgramFacts {
  std::string path;
  FileIdentity file;
  bool has_note = false;      // the ELF note of Muster::warm_start
  std::string python_runner;  // where it lies; empty: not found
};

// The template that the node's ranks want in this attempt. The error says in one clause why there should be
// none; it is empty where nobody asked for one.
std::expected<TemplateSpec, std::string> wanted_template(const ProgramFacts& program, const NodeContext& node,
                                                         const wire::JobSpec& job,
                                                         const wire::PrepareAttempt& plan);

// The command of a Python template: `python3 -u train.py --lr 1` becomes `python3 -u RUNNER train.py --lr 1`.
// Empty when the command runs neither a script nor a module.
std::vector<std::string> python_template_command(const std::vector<std::string>& command,
                                                 const std::string& runner);

// Whether libraries read this variable while they load, so that it cannot be changed afterwards.
bool is_read_while_loading(std::string_view variable);

// What a fork of the template has to change in its environment (NAME=value, or NAME to unset it) to be this
// rank; or in one clause why the rank must be executed.
std::expected<std::vector<std::string>, std::string> changes_for(const TemplateSpec& spec,
                                                                 const std::vector<std::string>& arguments,
                                                                 const Environment& environment);

}  // namespace muster::agent
