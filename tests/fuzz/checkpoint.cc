// The texts in a checkpoint directory: a manifest as it is or with the right digest, an attempt's file, the
// header of a file of tensors; and a rank's message about its share. An accepted text must mean exactly what
// it says.
#include "common/base/check.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors_header.h"
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
  // Format 2 skips unknown members and accepts several spellings of numbers.
  CHECK(manifest->format > 1 || again == text, "{} was read as {}", text, again);
  const auto same = parse_manifest(again);
  CHECK(same && *same == *manifest, "{} was read as {}", text, again);
}

// Signs the body as a writer with another idea of a manifest would.
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
    // Compares texts, because as JSON 1 and true are equal.
    CHECK(said.at(place).dump() == understood.at(place).dump(), "{} was read as {}", text, again);
  }
}

void read_rank_contents(std::string_view text) {
  const auto contents = parse_rank_contents(text);
  if (!contents) return check_refusal(contents.error());
  const auto same = parse_rank_contents(encode_rank_contents(*contents));
  CHECK(same && same->shared == contents->shared && same->own == contents->own &&
        same->files == contents->files);
  CheckpointManifest manifest{.world_size = 1};
  if (add_rank(manifest, 0, *contents)) (void)check_manifest(manifest);
}

// The file has `data_bytes` bytes of data after the header.
void read_tensor_header(std::string_view text, std::uint64_t data_bytes) {
  const std::uint64_t file_bytes = kHeaderLengthBytes + text.size() + data_bytes;
  const auto header = parse_header(text, file_bytes);
  if (!header) return check_refusal(header.error());
  std::uint64_t at = file_bytes - data_bytes;
  for (const HeaderTensor& tensor : header->tensors) {
    CHECK(tensor.begin_bytes == at, "{} begins at {}, not at {}", tensor.name, tensor.begin_bytes, at);
    at += tensor.size_bytes;
  }
  CHECK(at == file_bytes);
  auto tensors = header->tensors;
  const auto head = lay_out(tensors, header->metadata);
  CHECK(head.has_value(), "{}", head.error().message());
  const auto same = parse_header(std::string_view(head->text).substr(kHeaderLengthBytes), head->file_bytes);
  CHECK(same && same->metadata == header->metadata && same->tensors.size() == tensors.size());
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  switch (input.byte()) {
    case 'm': read_manifest(input.rest()); break;
    case 's': read_signed_manifest(input.rest()); break;
    case 'r': read_rank_contents(input.rest()); break;
    case 'h': {
      const unsigned data_bytes = input.byte();
      read_tensor_header(input.rest(), data_bytes);
      break;
    }
    case 'a': {
      const unsigned attempt = input.byte();
      read_attempt(input.rest(), Attempt(attempt == 0xff ? UINT64_MAX : attempt));
      break;
    }
    default: return -1;
  }
  return 0;
}
