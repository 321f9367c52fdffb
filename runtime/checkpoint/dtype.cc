#include "runtime/checkpoint/dtype.h"

#include <algorithm>
#include <array>
#include <bit>

namespace muster {

namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

struct Pair {
  at::ScalarType type;
  Dtype dtype;
};
constexpr std::array kPairs = {
    Pair{at::kBool, Dtype::kBool},
    Pair{at::kByte, Dtype::kU8},
    Pair{at::kChar, Dtype::kI8},
    Pair{at::kShort, Dtype::kI16},
    Pair{at::kInt, Dtype::kI32},
    Pair{at::kLong, Dtype::kI64},
    Pair{at::kHalf, Dtype::kF16},
    Pair{at::kBFloat16, Dtype::kBF16},
    Pair{at::kFloat, Dtype::kF32},
    Pair{at::kDouble, Dtype::kF64},
    Pair{at::kFloat8_e4m3fn, Dtype::kF8E4M3},
    Pair{at::kFloat8_e5m2, Dtype::kF8E5M2},
    Pair{at::kFloat8_e8m0fnu, Dtype::kF8E8M0},
    Pair{at::kFloat8_e4m3fnuz, Dtype::kF8E4M3Fnuz},
    Pair{at::kFloat8_e5m2fnuz, Dtype::kF8E5M2Fnuz},
    Pair{at::kUInt16, Dtype::kU16},
    Pair{at::kUInt32, Dtype::kU32},
    Pair{at::kUInt64, Dtype::kU64},
    Pair{at::kComplexFloat, Dtype::kC64},
};

}  // namespace

std::optional<Dtype> dtype_of(at::ScalarType type) {
  const auto found = std::ranges::find(kPairs, type, &Pair::type);
  return found == kPairs.end() ? std::nullopt : std::optional(found->dtype);
}

std::optional<at::ScalarType> scalar_type_of(Dtype dtype) {
  const auto found = std::ranges::find(kPairs, dtype, &Pair::dtype);
  return found == kPairs.end() ? std::nullopt : std::optional(found->type);
}

}  // namespace muster
