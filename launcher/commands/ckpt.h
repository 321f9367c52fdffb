// Functions for all parts of `launch ckpt`. They find the checkpoint that the user means, and print its name.
//
// Blocking; the commands print and return exit codes, as all commands do.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/catalog.h"
#include "launcher/commands/invocation.h"

namespace muster::launcher {

struct CkptCall {
  const CommandArguments& arguments;
  bool json = false;
  // Returns an operand after the subcommand's name. Operand 0 is the directory.
  const std::string& operand(std::size_t index) const { return arguments.operands.at(index + 1); }
  bool has_operand(std::size_t index) const { return arguments.operands.size() > index + 1; }
};

int ckpt_ls(const CkptCall& call);
int ckpt_show(const CkptCall& call);
int ckpt_verify(const CkptCall& call);
int ckpt_diff(const CkptCall& call);
int ckpt_prune(const CkptCall& call);
int ckpt_pin(const CkptCall& call);
int ckpt_unpin(const CkptCall& call);
int ckpt_export(const CkptCall& call);
int ckpt_import(const CkptCall& call);

struct Found {
  CheckpointDirectory directory{""};
  std::vector<CatalogEntry> catalog;
  std::optional<CheckpointId> id;  // if the operand names one checkpoint
};
// `operand` has the form DIR or DIR/step-S.attempt-A. It is an error if the directory has no checkpoints.
Expected<Found> find_checkpoints(const std::string& operand);
// Returns the checkpoint that the operand or `flag` names. If neither names one, returns the latest.
Expected<CheckpointId> choose(const CommandArguments& arguments, const Found& found,
                              const char* flag = "step");
// Returns the values of --metric and --mode if they are given.
Expected<std::optional<BestBy>> best_by_of(const CommandArguments& arguments);
const CatalogEntry& entry_of(const Found& found, CheckpointId id);

std::string time_text(std::int64_t unix_seconds);  // "2026-05-01T12:30:05Z"
std::string metrics_text(const std::map<std::string, double>& metrics);
int print_json(const nlohmann::ordered_json& document, int exit_code = 0);

}  // namespace muster::launcher
