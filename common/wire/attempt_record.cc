#include "common/wire/attempt_record.h"

#include "common/base/text.h"
#include "common/wire/json.h"
#include "common/wire/process_identity.h"

namespace muster {

namespace {

constexpr int kAttemptFormat = 1;

// Reads which process owns the attempt. Earlier versions wrote only the host of that process.
ProcessIdentity parse_owner(const nlohmann::json& document) {
  return document.contains("pid") ? parse_identity(document) : ProcessIdentity{.host = document.at("host")};
}

}  // namespace

std::string owner_of(const AttemptRecord& record) {
  if (record.job.empty()) return fmt::format("process {}", record.owner.pid);
  return fmt::format("job {} (process {})", record.job, record.owner.pid);
}

std::string encode_attempt_record(const AttemptRecord& record) {
  nlohmann::ordered_json resume;
  if (record.resume) resume = {{"step", record.resume->step}, {"attempt", record.resume->attempt.value()}};
  nlohmann::ordered_json document{
      {"format", kAttemptFormat}, {"attempt", record.attempt.value()}, {"job", record.job}};
  add_identity(document, record.owner);
  document["resume"] = std::move(resume);
  return document.dump() + "\n";
}

Expected<AttemptRecord> parse_attempt_record(std::string_view text, Attempt expected) {
  try {
    const auto document = parse_shallow_json(text);
    if (document.at("format") != kAttemptFormat) {
      return failure(ErrorCode::kCorrupt, "format {} is not known to this version",
                     document.at("format").dump());
    }
    AttemptRecord record{.attempt = Attempt(whole_number<std::uint64_t>(document.at("attempt"))),
                         .job = document.at("job"),
                         .owner = parse_owner(document),
                         .resume = {}};
    if (const auto& resume = document.at("resume"); !resume.is_null()) {
      record.resume = CheckpointId{.step = whole_number<std::uint64_t>(resume.at("step")),
                                   .attempt = Attempt(whole_number<std::uint64_t>(resume.at("attempt")))};
    }
    if (record.attempt != expected) return failure(ErrorCode::kCorrupt, "it says attempt {}", record.attempt);
    // Readers go from each attempt to the attempt from which it resumed. If an attempt could resume from a
    // later one, readers might go round in a circle.
    if (record.resume && record.resume->attempt >= record.attempt) {
      return failure(ErrorCode::kCorrupt, "it resumes from the later attempt {}", record.resume->attempt);
    }
    return record;
  } catch (const nlohmann::json::exception& error) {
    return failure(ErrorCode::kCorrupt, "not an attempt file: {}", one_line(error.what()));
  }
}

}  // namespace muster
