// Any bytes as a file of tensors: a whole file, or a header in one that fits it, at any address. What was
// taken covers the file, reads the same when it is written again, and is refused when a bit of it was
// changed.
#include "runtime/checkpoint/safetensors.h"

#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include "common/base/check.h"
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

// Memory of its own, of which the file is the end: what reads beyond is seen.
class File {
 public:
  File(std::string_view bytes, std::size_t offset) : memory_(new char[offset + bytes.size()]) {
    std::memcpy(memory_.get() + offset, bytes.data(), bytes.size());
    tensor_ = at::from_blob(memory_.get() + offset, {std::ssize(bytes)}, at::kByte);
  }
  const at::Tensor& tensor() const { return tensor_; }

 private:
  std::unique_ptr<char[]> memory_;
  at::Tensor tensor_;
};

std::string_view content_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
}

std::string encoded(const Safetensors& content) {
  std::string bytes;
  const Status done = encode_safetensors(content, [&](std::string_view piece) {
    bytes += piece;
    return Status();
  });
  CHECK(done.has_value(), "{}", done.error().message());
  return bytes;
}

void check_content(const Safetensors& content, std::size_t data_bytes) {
  std::size_t covered = 0;
  for (const auto& [name, tensor] : content.tensors) {
    CHECK(tensor.is_cpu() && tensor.is_contiguous(), "{}", name);
    CHECK(reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % tensor.element_size() == 0, "{}", name);
    covered += tensor.nbytes();
  }
  CHECK(covered == data_bytes, "{} bytes of {}", covered, data_bytes);
}

// What was taken is what the header says, and no number was made of something else.
void check_header(const Safetensors& content, std::string_view text) {
  const auto header = nlohmann::json::parse(text);
  for (const auto& [name, tensor] : content.tensors) {
    const auto& said = header.at(name);
    CHECK(said.at("shape").dump() == nlohmann::json(tensor.sizes().vec()).dump(), "{}", said.dump());
    const auto& offsets = said.at("data_offsets");
    // The library takes -0 for a whole number too.
    CHECK(offsets.size() == 2 && offsets[0].is_number_integer() && offsets[1].is_number_integer() &&
              offsets[0] >= 0 && offsets[1] >= offsets[0],
          "{}", said.dump());
  }
}

void check_same(const Safetensors& first, const Safetensors& second) {
  CHECK(first.metadata == second.metadata && first.tensors.size() == second.tensors.size());
  for (const auto& [name, tensor] : first.tensors) {
    const at::Tensor& other = second.tensors.at(name);
    CHECK(tensor.scalar_type() == other.scalar_type() && tensor.sizes() == other.sizes() &&
              content_of(tensor) == content_of(other),
          "{}", name);
  }
}

void read(std::string_view bytes, std::size_t offset, std::size_t damage) {
  const File file(bytes, offset);
  const auto content = parse_safetensors(file.tensor());
  if (!content) return check_refusal(content.error());
  check_content(*content, bytes.size() - header_bytes(bytes));
  check_header(*content, bytes.substr(kLengthSize, header_bytes(bytes) - kLengthSize));
  std::string again = encoded(*content);
  const std::size_t data_bytes = again.size() - header_bytes(again);
  {
    const File other(again, 0);
    const auto same = parse_safetensors(other.tensor());
    CHECK(same.has_value(), "{}", same.error().message());
    check_same(*content, *same);
  }
  if (data_bytes == 0) return;
  again[header_bytes(again) + damage / 8 % data_bytes] ^= static_cast<char>(1 << damage % 8);
  CHECK(!parse_safetensors(File(again, 0).tensor()), "a changed bit was not seen");
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  const unsigned choice = input.byte();
  const std::size_t offset = choice / 2 % 16;
  const std::size_t damage = input.byte() * 256 + input.byte();
  if (choice % 2 == 0) {
    read(input.rest(), offset, damage);
  } else {
    const std::string_view header = input.until('\0');
    read(with_length(header, input.rest()), offset, damage);
  }
  return 0;
}
