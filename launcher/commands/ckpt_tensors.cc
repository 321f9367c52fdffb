// `launch ckpt show`, `verify`, `diff`, `export` and `import`: the subcommands that read checkpoint files.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fmt/ranges.h>
#include <thread>
#include <unistd.h>

#include "common/base/color.h"
#include "common/base/file.h"
#include "common/base/text.h"
#include "launcher/commands/ckpt.h"
#include "launcher/core/text/table.h"
#include "launcher/core/text/words.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/io/checkpoint_files.h"

namespace muster::launcher {

namespace {

using nlohmann::ordered_json;
using SteadyClock = std::chrono::steady_clock;

std::uint64_t bytes_in(const SavedTensor& tensor) {
  return bytes_of(tensor.dtype, tensor.shape).value_or(0);
}

ordered_json as_json(const SavedTensor& tensor, const CheckpointManifest& manifest) {
  ordered_json parts = ordered_json::array();
  for (const StoredPart& part : tensor.parts)
    parts.push_back({{"file", manifest.files[part.file].name},
                     {"offset", part.offset_bytes},
                     {"offsets", part.slice.offsets},
                     {"sizes", part.slice.sizes}});
  return {{"dtype", name_of(tensor.dtype)},
          {"shape", tensor.shape},
          {"bytes", bytes_in(tensor)},
          {"parts", parts}};
}

ordered_json as_json(const Contents& contents, const CheckpointManifest& manifest) {
  ordered_json tensors = ordered_json::object();
  for (const auto& [name, tensor] : contents.tensors) tensors[name] = as_json(tensor, manifest);
  return {{"tensors", tensors}, {"values", contents.values}};
}

ordered_json as_json(const OpenCheckpoint& checkpoint) {
  const CheckpointManifest& manifest = checkpoint.manifest;
  ordered_json document{{"step", manifest.id.step},
                        {"attempt", manifest.id.attempt.value()},
                        {"path", checkpoint.path},
                        {"format", manifest.format},
                        {"job", manifest.job},
                        {"world_size", manifest.world_size},
                        {"written_at", manifest.written_at},
                        {"topology", manifest.topology},
                        {"metrics", manifest.metrics}};
  document.update(as_json(manifest.shared, manifest));
  document["own"] = ordered_json::array();
  for (const Contents& own : manifest.own) document["own"].push_back(as_json(own, manifest));
  return document;
}

std::string parts_text(const SavedTensor& tensor, const CheckpointManifest& manifest) {
  if (tensor.parts.size() == 1) return one_line(manifest.files[tensor.parts[0].file].name);
  return count_of(tensor.parts.size(), "part");
}

std::string as_text(const Contents& contents, const CheckpointManifest& manifest, const std::string& indent) {
  // Names are long. On a narrow terminal, leaves out the column of files before it wraps names.
  constexpr std::size_t kLeastOfName = 45;
  std::vector<Row> rows;
  for (const auto& [name, tensor] : contents.tensors)
    rows.push_back({indent + name, std::string(name_of(tensor.dtype)),
                    fmt::format("[{}]", fmt::join(tensor.shape, ", ")), small_size_text(bytes_in(tensor)),
                    parts_text(tensor, manifest)});
  std::string text = table_text(
      {{"", false, Narrow::kWrap, kLeastOfName}, {}, {}, {"", true}, {"", false, Narrow::kLeftOut}},
      std::move(rows), terminal_columns());
  for (const auto& [key, value] : contents.values)
    text += fmt::format("{}{} = {}\n", indent, one_line(key), one_line(value));
  return text;
}

std::string as_text(const OpenCheckpoint& checkpoint, const CatalogEntry& entry) {
  const CheckpointManifest& manifest = checkpoint.manifest;
  std::string text = fmt::format("{}: written {} by {}{}, {} in {}, format {}{}\n", name_of(manifest.id),
                                 time_text(entry.written_at), count_of(manifest.world_size, "rank"),
                                 manifest.job.empty() ? "" : " of job " + one_line(manifest.job),
                                 small_size_text(entry.size_bytes), count_of(manifest.files.size(), "file"),
                                 manifest.format, entry.known.pinned ? ", pinned" : "");
  if (!manifest.metrics.empty()) text += fmt::format("metrics: {}\n", metrics_text(manifest.metrics));
  for (const auto& [key, value] : manifest.topology)
    text += fmt::format("{}: {}\n", one_line(key), one_line(value));
  text += as_text(manifest.shared, manifest, "");
  for (std::size_t rank = 0; rank < manifest.own.size(); ++rank) {
    const std::string own = as_text(manifest.own[rank], manifest, "  ");
    if (!own.empty()) text += fmt::format("only rank {}:\n{}", rank, own);
  }
  return text;
}

// The checkpoint that the call names.
struct Selected {
  Found found;
  CheckpointId id;
};
Expected<Selected> selected_by(const CkptCall& call) {
  auto found = find_checkpoints(call.operand(0));
  if (!found) return std::unexpected(found.error());
  const auto id = choose(call.arguments, *found);
  if (!id) return std::unexpected(id.error());
  return Selected{*std::move(found), *id};
}

// Shows the progress of a long read in one line. The line is overwritten again and again. It is shown only on
// a terminal.
class Progress {
 public:
  explicit Progress(std::uint64_t all_bytes)
      : all_bytes_(all_bytes), shown_(isatty(STDERR_FILENO) == 1 && colors_wanted()) {}
  ~Progress() {
    if (shown_) write("\r\033[K");
  }
  void add(std::uint64_t bytes) {
    constexpr auto kPause = std::chrono::milliseconds(100);
    done_bytes_ += bytes;
    const auto now = SteadyClock::now();
    if (!shown_ || now - last_ < kPause) return;
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    write(fmt::format(
        "\r\033[Kverifying: {:.0f} %, {} of {}, {}/s",
        100.0 * static_cast<double>(done_bytes_) /
            static_cast<double>(std::max<std::uint64_t>(all_bytes_, 1)),
        size_text(done_bytes_), size_text(all_bytes_),
        size_text(static_cast<std::uint64_t>(static_cast<double>(done_bytes_) / std::max(seconds, 1e-3)))));
  }

 private:
  static void write(const std::string& text) { (void)write_all(STDERR_FILENO, text, "output"); }
  std::uint64_t all_bytes_;
  std::uint64_t done_bytes_ = 0;
  bool shown_;
  SteadyClock::time_point begin_ = SteadyClock::now();
  SteadyClock::time_point last_ = begin_;
};

Damage of_manifest(const Error& error) {
  return {.file = "manifest.json", .tensors = {}, .text = error.message()};
}

std::vector<Damage> damages_of(const CheckpointDirectory& directory, CheckpointId id, Progress& progress) {
  const auto manifest = directory.read_manifest(id);
  if (!manifest) return {of_manifest(manifest.error())};
  return verify_files(directory.path_of(id), *manifest,
                      {.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 2U, 8U)),
                       .progress = [&](std::uint64_t bytes) { progress.add(bytes); }});
}

ordered_json as_json(CheckpointId id, const std::vector<Damage>& damages) {
  ordered_json array = ordered_json::array();
  for (const Damage& damage : damages)
    array.push_back({{"file", damage.file},
                     {"begin", damage.begin_bytes},
                     {"end", damage.end_bytes},
                     {"tensors", damage.tensors},
                     {"text", damage.text}});
  return {{"step", id.step}, {"attempt", id.attempt.value()}, {"whole", damages.empty()}, {"damage", array}};
}

// Returns the file that the export writes. This is the FILE of -o, or the second operand.
Expected<std::string> output_of(const CkptCall& call) {
  const bool has_flag = call.arguments.has("output");
  if (has_flag && call.has_operand(1))
    return failure(ErrorCode::kInvalidArgument, "--output {} and {}: give one file",
                   call.arguments.value("output"), call.operand(1));
  if (has_flag || call.has_operand(1)) {
    const std::string file = has_flag ? call.arguments.value("output") : call.operand(1);
    if (file.empty() || file == "-")
      return failure(ErrorCode::kInvalidArgument,
                     "--output: {} is not a file: give one, such as model.safetensors",
                     file.empty() ? "(empty)" : file);
    const std::string directory = std::filesystem::path(file).parent_path();
    std::error_code error;
    if (directory.empty() || std::filesystem::is_directory(directory, error)) return file;
    return failure(ErrorCode::kInvalidArgument,
                   "--output {}: {} is not a directory: create it, or give another file", file, directory);
  }
  return failure(ErrorCode::kInvalidArgument,
                 "ckpt export: the file is missing: `launch ckpt export DIR -o FILE`");
}

// Returns kExitUsage for a wrong call, and for a file that cannot be used. Returns 1 for other errors, such
// as a full disk.
int exit_code_of(const Error& error) {
  const bool usage = error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kNotFound ||
                     error.code() == ErrorCode::kFenced;
  return usage ? kExitUsage : 1;
}

}  // namespace

int ckpt_show(const CkptCall& call) {
  const auto selected = selected_by(call);
  if (!selected) return refuse(selected.error(), kExitUsage);
  const auto checkpoint = open_checkpoint(selected->found.directory, selected->id, /*verified=*/false);
  if (!checkpoint) return refuse(checkpoint.error(), exit_code_of(checkpoint.error()));
  if (call.json) return print_json(as_json(*checkpoint));
  return print(as_text(*checkpoint, entry_of(selected->found, selected->id)));
}

int ckpt_verify(const CkptCall& call) {
  const auto found = find_checkpoints(call.operand(0));
  if (!found) return refuse(found.error(), kExitUsage);
  std::vector<CheckpointId> ids;
  if (call.arguments.has("step") || found->id) {
    const auto id = choose(call.arguments, *found);
    if (!id) return refuse(id.error(), kExitUsage);
    ids.push_back(*id);
  } else {
    for (const CatalogEntry& entry : found->catalog)
      if (entry.known.committed) ids.push_back(entry.known.id);
  }
  std::uint64_t all_bytes = 0;
  for (const CheckpointId id : ids) {
    const CatalogEntry& entry = entry_of(*found, id);
    // If a checkpoint has another version, it cannot be said whether it is damaged. So the command ends.
    if (entry.damage && entry.damage->code() == ErrorCode::kInvalidArgument)
      return refuse(*entry.damage, kExitUsage);
    all_bytes += entry.size_bytes;
  }
  ordered_json array = ordered_json::array();
  std::string text;
  bool whole = true;
  const auto begin = SteadyClock::now();
  {
    Progress progress(all_bytes);
    for (const CheckpointId id : ids) {
      const auto damages = damages_of(found->directory, id, progress);
      // A training that runs at the same time has removed this checkpoint.
      if (!damages.empty() && access(found->directory.manifest_path(id).c_str(), F_OK) != 0) {
        text += fmt::format("{}: removed meanwhile\n", name_of(id));
        continue;
      }
      whole = whole && damages.empty();
      array.push_back(as_json(id, damages));
      text += fmt::format("{}: {}\n", name_of(id), damages.empty() ? "whole" : "damaged");
      for (const Damage& damage : damages) text += "  " + one_line(damage.text) + "\n";
    }
  }
  const double seconds = std::chrono::duration<double>(SteadyClock::now() - begin).count();
  text += fmt::format("{} in {:.1f} s\n", small_size_text(all_bytes), seconds);
  return call.json ? print_json(array, whole ? 0 : 1) : print(text, whole ? 0 : 1);
}

int ckpt_diff(const CkptCall& call) {
  const auto left = selected_by(call);
  if (!left) return refuse(left.error(), kExitUsage);
  const auto other = find_checkpoints(call.operand(call.has_operand(1) ? 1 : 0));
  if (!other) return refuse(other.error(), kExitUsage);
  if (!call.has_operand(1) && !call.arguments.has("other-step"))
    return refuse(Error(ErrorCode::kInvalidArgument,
                        "ckpt diff: name a second checkpoint: --other-step S, or another directory"),
                  kExitUsage);
  const auto id = choose(call.arguments, *other, "other-step");
  if (!id) return refuse(id.error(), kExitUsage);
  const auto first = open_checkpoint(left->found.directory, left->id, /*verified=*/true);
  if (!first) return refuse(first.error(), kExitUsage);
  const auto second = open_checkpoint(other->directory, *id, /*verified=*/true);
  if (!second) return refuse(second.error(), kExitUsage);
  const auto differences = compare(*first, *second);
  if (!differences) return refuse(differences.error(), kExitUsage);
  ordered_json tensors = ordered_json::object();
  ordered_json values = ordered_json::object();
  std::vector<Row> rows;
  const auto tell = [&rows](const std::string& name, const std::string& what) {
    rows.push_back({fmt::format("{}: {}", name, what)});
  };
  for (const TensorDifference& difference : *differences) {
    tensors[difference.name] = difference.text;
    tell(difference.name, difference.text);
  }
  const auto& mine = first->manifest.shared.values;
  auto theirs = second->manifest.shared.values;
  for (const auto& [key, value] : mine) {
    const auto found = theirs.extract(key);
    if (!found.empty() && found.mapped() == value) continue;
    const std::string now = found.empty() ? "missing" : found.mapped();
    values[key] = {value, found.empty() ? ordered_json(nullptr) : ordered_json(now)};
    tell(key, fmt::format("{} and {}", value, now));
  }
  for (const auto& [key, value] : theirs) {
    values[key] = {nullptr, value};
    tell(key, "missing and " + value);
  }
  const bool same = tensors.empty() && values.empty();
  const auto largest = std::ranges::max_element(
      *differences, {}, [](const TensorDifference& each) { return each.largest.value_or(-1); });
  const bool measured = largest != differences->end() && largest->largest.has_value();
  if (measured) tell("largest difference", fmt::format("{} in {}", largest_text(*largest), largest->name));
  if (call.json) {
    ordered_json most(nullptr);
    if (measured)
      most = {{"tensor", largest->name}, {"index", largest->at}, {"difference", *largest->largest}};
    return print_json({{"same", same}, {"largest", most}, {"tensors", tensors}, {"values", values}},
                      same ? 0 : 1);
  }
  const std::vector<Column> lines{{"", false, Narrow::kWrap}};
  return print(same ? "the same\n" : table_text(lines, std::move(rows), terminal_columns()), same ? 0 : 1);
}

int ckpt_export(const CkptCall& call) {
  const auto output = output_of(call);
  if (!output) return refuse(output.error(), kExitUsage);
  const std::string& path = *output;
  const auto selected = selected_by(call);
  if (!selected) return refuse(selected.error(), kExitUsage);
  std::error_code error;
  if (std::filesystem::exists(path, error))
    return refuse(Error(ErrorCode::kInvalidArgument, path + " exists: name another file, or remove it"),
                  kExitUsage);
  const auto checkpoint = open_checkpoint(selected->found.directory, selected->id, /*verified=*/true);
  if (!checkpoint) return refuse(checkpoint.error(), exit_code_of(checkpoint.error()));
  const bool all = call.arguments.has("all");
  if (tensors_of(checkpoint->manifest, all).empty())
    return refuse(
        Error(ErrorCode::kInvalidArgument,
              fmt::format("{} has no model: give --all to export what it has", name_of(selected->id))),
        kExitUsage);
  const auto written = export_tensors(*checkpoint, all, path);
  if (!written) return refuse(written.error(), exit_code_of(written.error()));
  if (call.json)
    return print_json({{"step", selected->id.step},
                       {"attempt", selected->id.attempt.value()},
                       {"file", path},
                       {"tensors", written->tensor_count},
                       {"bytes", written->size_bytes}});
  return print(fmt::format("{}: {} of {}, {}\n", path, count_of(written->tensor_count, "tensor"),
                           name_of(selected->id), small_size_text(written->size_bytes)));
}

int ckpt_import(const CkptCall& call) {
  const std::string step_text = call.arguments.has("step") ? call.arguments.value("step") : "0";
  const auto step = parse_number<std::uint64_t>(step_text);
  if (!step)
    return refuse(
        Error(ErrorCode::kInvalidArgument, fmt::format("--step: {} is not a step number", step_text)),
        kExitUsage);
  const CheckpointDirectory directory(call.operand(0));
  const auto there = directory.step_directories();
  // An import that was killed may have left a step directory without a checkpoint. Such a directory does not
  // count.
  const auto is_checkpoint = [&](CheckpointId id) {
    return access(directory.manifest_path(id).c_str(), F_OK) == 0;
  };
  if (there && std::ranges::any_of(*there, is_checkpoint))
    return refuse(
        Error(ErrorCode::kInvalidArgument,
              fmt::format("{} already has checkpoints: name a directory without any", directory.path())),
        kExitUsage);
  const auto imported = import_tensors(call.operand(1), directory, *step);
  if (!imported) {
    const bool corrupt = imported.error().code() == ErrorCode::kCorrupt;
    return refuse(imported.error(), corrupt ? kExitUsage : exit_code_of(imported.error()));
  }
  if (call.json)
    return print_json({{"step", imported->id.step},
                       {"attempt", imported->id.attempt.value()},
                       {"path", directory.path_of(imported->id)},
                       {"tensors", imported->written.tensor_count},
                       {"bytes", imported->written.size_bytes}});
  return print(fmt::format("{}: {}, {}\n", directory.path_of(imported->id),
                           count_of(imported->written.tensor_count, "tensor"),
                           small_size_text(imported->written.size_bytes)));
}

}  // namespace muster::launcher
