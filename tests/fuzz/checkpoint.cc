// What lies in a checkpoint directory as text: a manifest as it is or one whose digest is right, an attempt's
// file. What is taken says exactly what the text says.
#include "common/base/check.h"
#include "common/checkpoint/manifest.h"
#include "common/wire/attempt_record.h"
#include "common/wire/digest.h"
#include "common/wire/json.h"
#include "tests/fuzz/input.h"

namespace muster {
namespace {

void read_manifest(std::string_view text) {
  const auto manifest = parse_manifest(text);
  if (!manifest) return check_refusal(manifest.error());
  const std::string again = encode_manifest(*manifest);
  // Of the second format what is not known is passed over, and of numbers several spellings are taken.
  CHECK(manifest->format > 1 || again == text, "{} was taken for {}", text, again);
  const auto same = parse_manifest(again);
  CHECK(same && *same == *manifest, "{} was taken for {}", text, again);
}

// As a writer with other ideas of a manifest would have signed it.
void read_signed_manifest(std::string_view body_text) {
  nlohmann::json body;
  try {
    body = parse_shallow_json(body_text);
  } catch (const nlohmann::json::exception&) {
    return;
  }
  read_manifest(nlohmann::json{{"body", body}, {"xxh3", xxh3_digest(body.dump())}}.dump());
}

void read_attempt(std::string_view text, Attempt expected) {
  const auto record = parse_attempt_record(text, expected);
  if (!record) return check_refusal(record.error());
  const std::string again = encode_attempt_record(*record);
  CHECK(parse_attempt_record(again, expected) == *record, "{}", again);
  const auto said = nlohmann::json::parse(text);
  const auto understood = nlohmann::json::parse(again);
  const auto resume = nlohmann::json::json_pointer("/resume");
  for (const char* field : {"/attempt", "/job", "/host", "/resume/step", "/resume/attempt"}) {
    const nlohmann::json::json_pointer place(field);
    if (place.parent_pointer() == resume && said[resume].is_null()) continue;
    // Compared as text: 1 and true are equal otherwise.
    CHECK(said.at(place).dump() == understood.at(place).dump(), "{} was taken for {}", text, again);
  }
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  switch (input.byte()) {
    case 'm': read_manifest(input.rest()); break;
    case 's': read_signed_manifest(input.rest()); break;
    case 'a': {
      const unsigned attempt = input.byte();
      read_attempt(input.rest(), Attempt(attempt == 0xff ? UINT64_MAX : attempt));
      break;
    }
    default: return -1;
  }
  return 0;
}
