// Any bytes as numpy's arrays, .npy or .npz: an array that was read, saved and read again must be the same.
#include "runtime/data/datasets/npy.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include "common/base/check.h"
#include "runtime/data/datasets/npz.h"
#include "tests/fuzz/input.h"
#include "tests/unit/runtime/npy_file.h"

namespace muster {
namespace {

void check_array(const at::Tensor& tensor, const std::string& descr) {
  CHECK(tensor.is_contiguous());
  std::string shape = "(";
  for (const std::int64_t extent : tensor.sizes()) shape += fmt::format("{},", extent);
  const std::string saved =
      npy_file("'" + descr + "'", shape + ")",
               std::string(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()));
  const auto again = tensor_of_npy(std::as_bytes(std::span(saved)));
  CHECK(again && again->sizes() == tensor.sizes() && again->scalar_type() == tensor.scalar_type());
  CHECK(tensor.nbytes() == 0 ||
        std::memcmp(again->const_data_ptr(), tensor.const_data_ptr(), tensor.nbytes()) == 0);
}

}  // namespace
}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  FuzzInput input(data, size);
  const std::string_view bytes = input.rest();
  if (bytes.starts_with("PK")) {
    const auto tensors = tensors_of_npz(bytes);
    if (!tensors) check_refusal(tensors.error());
    return 0;
  }
  const auto span = std::as_bytes(std::span(bytes));
  const auto tensor = tensor_of_npy(span);
  if (!tensor) {
    check_refusal(tensor.error());
    return 0;
  }
  CHECK(tensor->nbytes() <= bytes.size());
  check_array(*tensor, read_npy_header(span)->descr);
  return 0;
}
