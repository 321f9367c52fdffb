// Any bytes as an IDX file, uncompressed and compressed.
#include "runtime/data/datasets/idx.h"

#include <algorithm>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/check.h"
#include "tests/fuzz/input.h"

namespace muster {
namespace {

Expected<IdxArray> read_bytes(std::string_view bytes) {
  static const int file = memfd_create("idx", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  CHECK(ftruncate(file, 0) == 0 &&
        pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  auto array = read_idx_array(path);
  if (!array) check_refusal(array.error());
  return array;
}

std::string compressed(std::string_view bytes) {
  constexpr int kGzip = 16 + 9;  // the smallest window has less memory to clear
  z_stream stream{};
  CHECK(deflateInit2(&stream, 1, Z_DEFLATED, kGzip, 1, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string result(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // NOLINT
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

// The only uncompressed file with this content.
std::string written(const IdxArray& array) {
  std::string text{'\0', '\0', static_cast<char>(array.type), static_cast<char>(array.shape.size())};
  for (const std::uint32_t extent : array.shape)
    for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(extent >> shift);
  const std::size_t size = element_bytes(array.type);
  for (std::size_t at = 0; at < array.bytes.size(); at += size)
    for (std::size_t byte = size; byte > 0; --byte) text += static_cast<char>(array.bytes[at + byte - 1]);
  return text;
}

// The product of the extents other than 0. A shape with a 0 must not overflow either.
std::uint64_t product(const std::vector<std::uint32_t>& shape) {
  std::uint64_t product = 1;
  for (const std::uint32_t extent : shape)
    CHECK(extent == 0 || !__builtin_mul_overflow(product, extent, &product), "the extents overflow");
  return product;
}

void check_array(const IdxArray& array) {
  CHECK(!array.shape.empty());
  const bool empty = std::ranges::find(array.shape, 0U) != array.shape.end();
  const std::uint64_t bytes = product(array.shape) * element_bytes(array.type);
  CHECK(bytes <= std::uint64_t{4} << 30, "{} bytes", bytes);
  CHECK(array.bytes.size() == (empty ? 0 : bytes), "{} bytes", array.bytes.size());
  CHECK(array.bytes.capacity() <= 2 * array.bytes.size() + (1 << 20), "capacity for {} bytes instead of {}",
        array.bytes.capacity(), array.bytes.size());
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  const std::string_view bytes = FuzzInput(data, size).rest();
  const auto array = read_bytes(bytes);
  if (array) check_array(*array);
  if (bytes.starts_with("\x1f\x8b")) return 0;
  CHECK(!array || written(*array) == bytes, "the accepted file differs when it is written again");
  const auto again = read_bytes(compressed(bytes));
  CHECK(again.has_value() == array.has_value(), "compressed: {}", again ? "taken" : again.error().message());
  CHECK(!array || (again->shape == array->shape && again->bytes == array->bytes));
  return 0;
}
