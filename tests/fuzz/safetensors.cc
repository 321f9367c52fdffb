// Any bytes as a file of tensors: a whole file, or a header in a file of the right size. Accepted tensors
// must cover the file, and read the same when they are written again.
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/base/check.h"
#include "common/checkpoint/safetensors_header.h"
#include "tests/fuzz/input.h"

namespace muster {
namespace {

constexpr std::size_t kLengthSize = 8;

std::string with_length(std::string_view header, std::string_view data) {
  const std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), kLengthSize);
  return file.append(header).append(data);
}

std::size_t header_bytes(std::string_view file) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthSize);
  return kLengthSize + length;
}

Expected<SafetensorsHeader> parse(std::string_view file) {
  const auto length = muster::header_bytes(file, file.size());
  if (!length) return std::unexpected(length.error());
  // An allocation of exact size, so that the sanitizer finds reads beyond the end.
  const std::vector<char> text(file.begin() + kLengthSize,
                               file.begin() + static_cast<std::ptrdiff_t>(kLengthSize + *length));
  return parse_header({text.data(), text.size()}, file.size());
}

void check_content(const SafetensorsHeader& content, std::size_t begin, std::size_t end) {
  for (const HeaderTensor& tensor : content.tensors) {
    CHECK(tensor.begin_bytes == begin && bytes_of(tensor.dtype, tensor.shape) == tensor.size_bytes, "{}",
          tensor.name);
    begin += tensor.size_bytes;
  }
  CHECK(begin == end, "{} bytes of {}", begin, end);
}

// An accepted header must mean what it says; no other value may become a number.
void check_header(const SafetensorsHeader& content, std::string_view text) {
  const auto header = nlohmann::json::parse(text);
  for (const HeaderTensor& tensor : content.tensors) {
    const auto& said = header.at(tensor.name);
    CHECK(said.at("shape").dump() == nlohmann::json(tensor.shape).dump(), "{}", said.dump());
    const auto& offsets = said.at("data_offsets");
    // The JSON library counts -0 as an integer.
    CHECK(offsets.size() == 2 && offsets[0].is_number_integer() && offsets[1].is_number_integer() &&
              offsets[0] >= 0 && offsets[1] >= offsets[0],
          "{}", said.dump());
  }
}

void read(std::string_view bytes) {
  const auto content = parse(bytes);
  if (!content) return check_refusal(content.error());
  const std::size_t begin = header_bytes(bytes);
  check_content(*content, begin, bytes.size());
  check_header(*content, bytes.substr(kLengthSize, begin - kLengthSize));
  std::vector<HeaderTensor> tensors = content->tensors;
  const auto head = lay_out(tensors, content->metadata);
  CHECK(head.has_value(), "{}", head.error().message());
  const std::string again = head->text + std::string(head->file_bytes - head->text.size(), 'x');
  const auto same = parse(again);
  CHECK(same.has_value(), "{}", same.error().message());
  CHECK(same->metadata == content->metadata && same->tensors == tensors);
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  if (input.byte() % 2 == 0) {
    read(input.rest());
  } else {
    const std::string_view header = input.until('\0');
    read(with_length(header, input.rest()));
  }
  return 0;
}
