// `launch ckpt`: its subcommands, which work on the checkpoints of a directory.
#include "launcher/commands/ckpt.h"

#include <algorithm>
#include <filesystem>
#include <fmt/chrono.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "common/base/color.h"
#include "common/base/text.h"
#include "launcher/core/text/nearest.h"
#include "launcher/core/text/table.h"
#include "launcher/core/text/words.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

namespace {

namespace fs = std::filesystem;

struct Word {
  std::string_view name;
  int (*execute)(const CkptCall&);
  std::size_t operand_count;  // after the subcommand's name, at least
  std::size_t most_operands;
  std::vector<std::string_view> flags;  // except --json and --help
};

const std::vector<Word>& ckpt_words() {
  static const std::vector<std::string_view> kChoice{"step", "metric", "mode"};
  static const std::vector<Word> kWords{
      {"ls", ckpt_ls, 1, 1, {}},
      {"show", ckpt_show, 1, 1, kChoice},
      {"verify", ckpt_verify, 1, 1, kChoice},
      {"diff", ckpt_diff, 1, 2, {"step", "metric", "mode", "other-step"}},
      {"prune", ckpt_prune, 1, 1, {"keep", "every", "best", "metric", "mode", "dry-run", "yes", "force"}},
      {"pin", ckpt_pin, 1, 1, kChoice},
      {"unpin", ckpt_unpin, 1, 1, kChoice},
      {"export", ckpt_export, 1, 2, {"step", "metric", "mode", "output", "all"}},
      {"import", ckpt_import, 2, 2, {"step"}},
  };
  return kWords;
}

Expected<const Word*> word_of(const CommandArguments& arguments) {
  if (arguments.operands.empty())
    return failure(ErrorCode::kInvalidArgument, "ckpt: say what to do: {}", kCheckpointWords);
  const std::string& name = arguments.operands.front();
  const auto word = std::ranges::find(ckpt_words(), name, &Word::name);
  if (word == ckpt_words().end())
    return failure(ErrorCode::kInvalidArgument, "ckpt: {}: not one of {}{}", name, kCheckpointWords,
                   did_you_mean(name, kCheckpointWords));
  const std::size_t given = arguments.operands.size() - 1;
  if (given < word->operand_count)
    return failure(ErrorCode::kInvalidArgument, "ckpt {}: {} is missing: `launch ckpt {} DIR{}`", name,
                   given == 0 ? "the checkpoint directory" : "the file", name,
                   word->operand_count > 1 ? " FILE" : "");
  if (given > word->most_operands)
    return failure(ErrorCode::kInvalidArgument, "ckpt {}: {} is one argument too many", name,
                   arguments.operands.back());
  for (const auto& [flag, value] : arguments.flags) {
    if (flag != "json" && std::ranges::find(word->flags, flag) == word->flags.end())
      return failure(ErrorCode::kInvalidArgument, "{}: not a flag of `launch ckpt {}`", value.spelling, name);
  }
  const bool asks_for_best =
      arguments.has("best") || arguments.value("step") == "best" || arguments.value("other-step") == "best";
  if (arguments.has("metric") && !asks_for_best)
    return failure(ErrorCode::kInvalidArgument, "--metric: decides which checkpoint is best: give {} too",
                   name == "prune" ? "--best N" : "--step best");
  return &*word;
}

// DIR, or DIR/step-300.attempt-2.
struct Place {
  CheckpointDirectory directory{""};
  std::optional<CheckpointId> id;
};

Place place_of(const std::string& operand) {
  fs::path path = fs::path(operand).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // a slash at the end
  const auto id = parse_directory_name(path.filename().string());
  if (!id) return {.directory = CheckpointDirectory(path.string()), .id = {}};
  const std::string parent = path.parent_path().string();
  return {.directory = CheckpointDirectory(parent.empty() ? "." : parent), .id = id};
}

Expected<CheckpointId> id_of_step(const Found& found, const std::string& text) {
  const auto step = parse_number<std::uint64_t>(text);
  if (!step) return failure(ErrorCode::kInvalidArgument, "--step: {} is not a step, latest or best", text);
  std::optional<CheckpointId> chosen;
  bool counts = false;
  std::vector<std::uint64_t> steps;
  for (const CatalogEntry& entry : found.catalog) {
    if (entry.known.committed) steps.push_back(entry.known.id.step);
    if (!entry.known.committed || entry.known.id.step != *step || (counts && !entry.known.counts)) continue;
    chosen = entry.known.id;
    counts = entry.known.counts;
  }
  if (!chosen)
    return failure(ErrorCode::kNotFound, "--step: {} has no checkpoint of step {}; it has steps {}",
                   found.directory.path(), *step, fmt::join(steps, ", "));
  return *chosen;
}

}  // namespace

Expected<Found> find_checkpoints(const std::string& operand) {
  const Place place = place_of(operand);
  std::error_code error;
  if (!fs::is_directory(place.directory.path(), error))
    return failure(ErrorCode::kNotFound, "{}: {}", place.directory.path(),
                   error ? error.message() : "not a directory");
  auto catalog = read_catalog(place.directory);
  if (!catalog) return std::unexpected(catalog.error());
  Found found{.directory = place.directory, .catalog = *std::move(catalog), .id = place.id};
  const bool none =
      std::ranges::none_of(found.catalog, [](const CatalogEntry& entry) { return entry.known.committed; });
  if (none) return failure(ErrorCode::kNotFound, "{} has no checkpoint", place.directory.path());
  if (place.id) {
    const auto entry =
        std::ranges::find(found.catalog, *place.id, [](const CatalogEntry& each) { return each.known.id; });
    if (entry == found.catalog.end() || !entry->known.committed)
      return failure(ErrorCode::kNotFound, "{} is not a checkpoint", operand);
  }
  return found;
}

Expected<std::optional<BestBy>> best_by_of(const CommandArguments& arguments) {
  const std::string mode = arguments.value("mode");
  if (arguments.has("mode") && mode != "min" && mode != "max")
    return failure(ErrorCode::kInvalidArgument, "--mode: {} is neither min nor max", mode);
  if (arguments.has("mode") != arguments.has("metric"))
    return failure(ErrorCode::kInvalidArgument, "--{} needs --{} too",
                   arguments.has("mode") ? "mode" : "metric", arguments.has("mode") ? "metric" : "mode");
  if (!arguments.has("mode")) return std::nullopt;
  return BestBy{.metric = arguments.value("metric"), .most = mode == "max"};
}

Expected<CheckpointId> choose(const CommandArguments& arguments, const Found& found, const char* flag) {
  const std::string step = arguments.has(flag) ? arguments.value(flag) : "latest";
  if (found.id) {
    if (arguments.has(flag))
      return failure(ErrorCode::kInvalidArgument, "--{}: {} already names a checkpoint", flag,
                     found.directory.path_of(*found.id));
    return *found.id;
  }
  const auto by = best_by_of(arguments);
  if (!by) return std::unexpected(by.error());
  const auto chosen = step == "latest" ? latest_of(found.catalog)
                      : step == "best" ? best_of(found.catalog, *by)
                                       : id_of_step(found, step);
  if (!chosen && step == "latest")
    return failure(ErrorCode::kNotFound,
                   "{}: no usable checkpoint counts; name one with --step, or by its path",
                   found.directory.path());
  return chosen;
}

const CatalogEntry& entry_of(const Found& found, CheckpointId id) {
  return *std::ranges::find(found.catalog, id, [](const CatalogEntry& entry) { return entry.known.id; });
}

std::string time_text(std::int64_t unix_seconds) {
  constexpr std::int64_t kYear10000 = 253402300800;
  if (unix_seconds < 0 || unix_seconds >= kYear10000) return "-";
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

std::string metrics_text(const std::map<std::string, double>& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics)
    text += fmt::format("{}{}={:.6g}", text.empty() ? "" : " ", one_line(name), value);
  return text.empty() ? "-" : text;
}

int print_json(const nlohmann::ordered_json& document, int exit_code) {
  return print(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", exit_code);
}

int ckpt(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  const auto word = word_of(*arguments);
  if (!word) return refuse(word.error(), kExitUsage);
  return (*word)->execute({*arguments, arguments->has("json")});
}

int ckpt_ls(const CkptCall& call) {
  const auto found = find_checkpoints(call.operand(0));
  if (!found) return refuse(found.error(), kExitUsage);
  const auto latest = latest_of(found->catalog);
  const auto best = best_of(found->catalog, {});
  const auto attempts = found->directory.attempts();
  if (!attempts) return refuse(attempts.error(), kExitUsage);
  // Some checkpoints always stay, whatever a training or `prune` is told to keep. The default plan keeps only
  // these.
  const auto decisions = decide_retention(known_of(found->catalog), *attempts, {});
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  std::vector<Row> rows;
  for (auto each = found->catalog.rbegin(); each != found->catalog.rend(); ++each) {
    const KnownCheckpoint& known = each->known;
    if (!known.committed) continue;
    std::vector<std::string> remarks;
    if (latest && *latest == known.id) remarks.emplace_back("latest");
    if (best && *best == known.id) remarks.emplace_back("best");
    const RetentionDecision& decision =
        *std::ranges::find(decisions, known.id, [](const RetentionDecision& one) { return one.id; });
    if (decision.stays) remarks.push_back("stays: " + decision.reason);
    if (!known.counts) remarks.emplace_back("does not count");
    if (each->damage) remarks.push_back(one_line(each->damage->message()));
    rows.push_back({std::to_string(known.id.step), fmt::format("{}", known.id.attempt),
                    known.usable ? time_text(each->written_at) : "-",
                    known.usable ? small_size_text(each->size_bytes) : "-", metrics_text(known.metrics),
                    fmt::format("{}", fmt::join(remarks, ", "))});
    array.push_back({{"step", known.id.step},
                     {"attempt", known.id.attempt.value()},
                     {"path", found->directory.path_of(known.id)},
                     {"written_at", each->written_at},
                     {"bytes", each->size_bytes},
                     {"format", each->format},
                     {"job", each->job},
                     {"world_size", each->world_size},
                     {"metrics", known.metrics},
                     {"usable", known.usable},
                     {"counts", known.counts},
                     {"pinned", known.pinned},
                     {"stays", decision.stays ? nlohmann::ordered_json(decision.reason)
                                              : nlohmann::ordered_json(nullptr)},
                     {"latest", latest && *latest == known.id},
                     {"best", best && *best == known.id},
                     {"damage", each->damage ? nlohmann::ordered_json(each->damage->message())
                                             : nlohmann::ordered_json(nullptr)}});
  }
  if (call.json) return print_json(array);
  return print(table_text({{"STEP", true},
                           {"ATTEMPT", true},
                           {"WRITTEN"},
                           {"SIZE", true},
                           {"METRICS", false, Narrow::kWrap, 12},
                           {"REMARKS", false, Narrow::kWrap, 16}},
                          std::move(rows), terminal_columns()));
}

namespace {

int set_pin(const CkptCall& call, bool pinned) {
  const auto found = find_checkpoints(call.operand(0));
  if (!found) return refuse(found.error(), kExitUsage);
  const auto id = choose(call.arguments, *found);
  if (!id) return refuse(id.error(), kExitUsage);
  const Status done = pinned ? found->directory.pin(*id) : found->directory.unpin(*id);
  if (!done) return refuse(done.error(), 1);
  if (call.json)
    return print_json({{"step", id->step}, {"attempt", id->attempt.value()}, {"pinned", pinned}});
  return print(fmt::format("{} is {}\n", name_of(*id), pinned ? "pinned" : "no longer pinned"));
}

// Returns a clause that names the launch that may be using the directory now. Returns "" if there is none.
std::string user_of(const CheckpointDirectory& directory, bool force) {
  const auto newest = directory.newest();
  if (!newest) return "";
  const auto alive = is_alive(newest->owner);
  if (alive.value_or(false)) return fmt::format("is in use by {}, which is running", owner_of(*newest));
  if (alive || force) return "";
  return fmt::format("was last used by {} on host {}: if that job no longer runs, give --force",
                     owner_of(*newest), newest->owner.host);
}

// Returns how many checkpoints do not stay, and how many bytes these have.
std::pair<std::size_t, std::uint64_t> size_of_old(const Found& found,
                                                  const std::vector<RetentionDecision>& decisions) {
  std::pair<std::size_t, std::uint64_t> sum;
  for (const RetentionDecision& decision : decisions) {
    if (decision.stays) continue;
    ++sum.first;
    sum.second += entry_of(found, decision.id).size_bytes;
  }
  return sum;
}

std::string list_of(const std::vector<RetentionDecision>& decisions, std::string_view goes) {
  std::string text;
  for (const RetentionDecision& decision : decisions)
    text += fmt::format("{:<8}  {}: {}\n", decision.stays ? "stays" : goes, name_of(decision.id),
                        decision.reason);
  return text;
}

nlohmann::ordered_json as_json(const std::vector<RetentionDecision>& decisions, bool removed) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const RetentionDecision& decision : decisions)
    array.push_back({{"step", decision.id.step},
                     {"attempt", decision.id.attempt.value()},
                     {"stays", decision.stays},
                     {"removed", removed && !decision.stays},
                     {"reason", decision.reason}});
  return array;
}

Status remove_old(const CheckpointDirectory& directory, const std::vector<RetentionDecision>& decisions) {
  // First syncs the checkpoints that stay. A rank may have been killed right after a commit. Then the
  // checkpoint may not be on the disk yet.
  for (const RetentionDecision& decision : decisions) {
    if (!decision.stays) continue;
    if (Status synced = directory.sync(decision.id); !synced) return synced;
  }
  for (const RetentionDecision& decision : decisions) {
    if (decision.stays) continue;
    if (Status removed = directory.remove(decision.id); !removed) return removed;
  }
  return {};
}

Expected<std::vector<RetentionDecision>> decisions_of(const CommandArguments& arguments, const Found& found) {
  const auto keep = arguments.count("keep", "checkpoints", 1);  // the newest one always stays
  const auto every = arguments.count("every", "steps");
  const auto best = arguments.count("best", "checkpoints");
  const auto by = best_by_of(arguments);
  for (const auto* number : {&keep, &every, &best})
    if (!*number) return std::unexpected(number->error());
  if (!by) return std::unexpected(by.error());
  if (!*keep && !*every && !*best)
    return failure(ErrorCode::kInvalidArgument,
                   "ckpt prune: say what to keep: --keep N, --every N, --best N");
  const auto attempts = found.directory.attempts();
  if (!attempts) return std::unexpected(attempts.error());
  RetentionPlan plan{
      .last = keep->value_or(1), .every = every->value_or(0), .best = best->value_or(0), .best_by = *by};
  if (*best && !plan.best_by) {
    const auto latest = latest_of(found.catalog);
    if (latest) plan.best_by = entry_of(found, *latest).best_by;
    if (!plan.best_by)
      return failure(ErrorCode::kInvalidArgument,
                     "--best: the checkpoints do not name their metric: give --metric NAME --mode min|max");
  }
  return decide_retention(known_of(found.catalog), *attempts, plan);
}

}  // namespace

int ckpt_pin(const CkptCall& call) {
  return set_pin(call, true);
}

int ckpt_unpin(const CkptCall& call) {
  return set_pin(call, false);
}

int ckpt_prune(const CkptCall& call) {
  const auto found = find_checkpoints(call.operand(0));
  if (!found) return refuse(found.error(), kExitUsage);
  if (found->id)
    return refuse(
        Error(ErrorCode::kInvalidArgument, "ckpt prune: name the whole directory, not one checkpoint in it"),
        kExitUsage);
  const auto decisions = decisions_of(call.arguments, *found);
  if (!decisions) return refuse(decisions.error(), kExitUsage);
  const bool dry_run = call.arguments.has("dry-run");
  const std::string user = user_of(found->directory, call.arguments.has("force"));
  if (!dry_run && !user.empty())
    return refuse(Error(ErrorCode::kFenced, fmt::format("{} {}", found->directory.path(), user)), kExitUsage);
  const auto [count, bytes] = size_of_old(*found, *decisions);
  const std::string sum = fmt::format("{} of {}, {}", count, count_of(found->catalog.size(), "checkpoint"),
                                      small_size_text(bytes));
  const bool asks = !dry_run && count > 0 && !call.arguments.has("yes");
  if (asks) {
    if (const auto refused = ask_before("remove " + sum, list_of(*decisions, "would go"), call.arguments))
      return *refused;
    // While the user was thinking about the answer, a training may have begun.
    if (const std::string now = user_of(found->directory, call.arguments.has("force")); !now.empty())
      return refuse(Error(ErrorCode::kFenced, fmt::format("{} {}", found->directory.path(), now)),
                    kExitUsage);
    // In the meantime, another user may have pinned a checkpoint that was to be removed.
    const auto present = find_checkpoints(call.operand(0));
    const auto again = present ? decisions_of(call.arguments, *present) : std::unexpected(present.error());
    if (!again) return refuse(again.error(), kExitUsage);
    if (*again != *decisions)
      return refuse(Error(ErrorCode::kFenced,
                          fmt::format("{} has changed since the question: nothing was removed: start again",
                                      found->directory.path())),
                    1);
  }
  if (const Status removed = dry_run ? Status() : remove_old(found->directory, *decisions); !removed)
    return refuse(removed.error(), 1);
  if (call.json) return print_json(as_json(*decisions, !dry_run));
  if (asks) return print(sum + " were removed\n");
  if (!dry_run) return print(fmt::format("{}{} were removed\n", list_of(*decisions, "removed"), sum));
  return print(fmt::format("{}{} would go{}\n", list_of(*decisions, "would go"), sum,
                           user.empty() ? "" : fmt::format("; but the directory {}", user)));
}

}  // namespace muster::launcher
