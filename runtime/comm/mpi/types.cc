#include "runtime/comm/mpi/types.h"

#include <ATen/Dispatch.h>
#include <algorithm>
#include <array>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <map>

namespace muster::mpi {
namespace {

using Kind = c10d::ReduceOp::RedOpType;

constexpr std::array kTypes{at::kFloat, at::kDouble, at::kHalf,  at::kBFloat16, at::kChar,
                            at::kByte,  at::kBool,   at::kShort, at::kInt,      at::kLong};

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::SUM: return "SUM";
    case Kind::AVG: return "AVG";
    case Kind::PRODUCT: return "PRODUCT";
    case Kind::MIN: return "MIN";
    case Kind::MAX: return "MAX";
    case Kind::BAND: return "BAND";
    case Kind::BOR: return "BOR";
    case Kind::BXOR: return "BXOR";
    default: return "a custom operation";
  }
}

template <class Element, Kind kKind>
Element combine(Element left, Element right) {
  const float a = static_cast<float>(left);
  const float b = static_cast<float>(right);
  if constexpr (kKind == Kind::SUM) return Element(a + b);
  if constexpr (kKind == Kind::PRODUCT) return Element(a * b);
  if constexpr (kKind == Kind::MIN) return b < a ? right : left;
  return b > a ? right : left;
}

template <class Element, Kind kKind>
void combine_all(void* in, void* in_out, int* count, MPI_Datatype*) {
  const auto* from = static_cast<const Element*>(in);
  auto* to = static_cast<Element*>(in_out);
  for (int each = 0; each < *count; ++each) to[each] = combine<Element, kKind>(from[each], to[each]);
}

template <class Element>
MPI_User_function* function_of(Kind kind) {
  switch (kind) {
    case Kind::PRODUCT: return combine_all<Element, Kind::PRODUCT>;
    case Kind::MIN: return combine_all<Element, Kind::MIN>;
    case Kind::MAX: return combine_all<Element, Kind::MAX>;
    default: return combine_all<Element, Kind::SUM>;
  }
}

bool is_half(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16;
}

// This type and the operations for it exist as long as MPI is initialized.
MPI_Datatype half_type() {
  static const MPI_Datatype made = [] {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(2, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    return type;
  }();
  return made;
}
MPI_Op half_operation(at::ScalarType type, Kind kind) {
  static std::map<std::pair<at::ScalarType, Kind>, MPI_Op> made;
  const auto [place, is_new] = made.try_emplace({type, kind}, MPI_OP_NULL);
  if (is_new)
    MPI_Op_create(type == at::kHalf ? function_of<c10::Half>(kind) : function_of<c10::BFloat16>(kind), 1,
                  &place->second);
  return place->second;
}

}  // namespace

void require_reducible(at::ScalarType type, const c10d::ReduceOp& op) {
  const Kind kind = op.op_;
  TORCH_CHECK(std::ranges::find(kTypes, type) != kTypes.end(), "MPI does not reduce ", c10::toString(type));
  TORCH_CHECK(kind != Kind::PREMUL_SUM && kind != Kind::UNUSED, "MPI does not reduce by ", name_of(kind));
  const bool integers = at::isIntegralType(type, /*includeBool=*/true);
  TORCH_CHECK(!integers || kind != Kind::AVG, "integers have no mean");
  const bool bits = kind == Kind::BAND || kind == Kind::BOR || kind == Kind::BXOR;
  TORCH_CHECK(integers || !bits, "bitwise operations need integers");
}

MPI_Datatype datatype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return MPI_FLOAT;
    case at::kDouble: return MPI_DOUBLE;
    case at::kChar: return MPI_INT8_T;
    case at::kByte:
    case at::kBool: return MPI_UINT8_T;
    case at::kShort: return MPI_INT16_T;
    case at::kInt: return MPI_INT32_T;
    case at::kLong: return MPI_INT64_T;
    default: return half_type();
  }
}

MPI_Op operation_of(at::ScalarType type, const c10d::ReduceOp& op) {
  const Kind kind = op.op_;
  if (is_half(type)) return half_operation(type, kind == Kind::AVG ? Kind::SUM : kind);
  switch (kind) {
    case Kind::SUM:
    case Kind::AVG: return type == at::kBool ? MPI_MAX : MPI_SUM;
    case Kind::PRODUCT: return type == at::kBool ? MPI_MIN : MPI_PROD;
    case Kind::MIN: return MPI_MIN;
    case Kind::MAX: return MPI_MAX;
    case Kind::BAND: return MPI_BAND;
    case Kind::BOR: return MPI_BOR;
    default: return MPI_BXOR;
  }
}

void divide(void* data, std::int64_t count, at::ScalarType type, int divisor) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, type, "divide", [&] {
    auto* elements = static_cast<scalar_t*>(data);
    for (std::int64_t each = 0; each < count; ++each)
      elements[each] = static_cast<scalar_t>(elements[each] / static_cast<scalar_t>(divisor));
  });
}

}  // namespace muster::mpi
