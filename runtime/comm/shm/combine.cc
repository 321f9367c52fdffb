#include "runtime/comm/shm/combine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

namespace muster::shm {
namespace {

// The number of elements that are combined at once. It is so small that they fit into the processor's
// registers or its nearest cache.
constexpr std::size_t kBlock = 64;
// Other ranks have written the data, so it is in the caches of their processors. The loop prefetches the data
// that lies this many bytes ahead.
constexpr std::size_t kAheadBytes = 1024;
constexpr std::size_t kLineBytes = 64;

// `Stored` is the form of an element in memory. `Wide` is the type in which elements are combined.
template <class T>
struct Plain {
  using Stored = T;
  using Wide = T;
  static Wide load(Stored value) { return value; }
  static Stored store(Wide value) { return value; }
};

struct BFloat16 {
  using Stored = std::uint16_t;
  using Wide = float;
  static Wide load(Stored value) { return std::bit_cast<float>(std::uint32_t{value} << 16); }
  static Stored store(Wide value) {  // to nearest, ties to even
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + ((bits >> 16) & 1) + 0x7fff) >> 16;
    return static_cast<Stored>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
  }
};

// Converts numbers by arithmetic on floats, without branches. Maratyszcza's library FP16 and torch do the
// same.
struct Half {
  using Stored = std::uint16_t;
  using Wide = float;
  static Wide load(Stored value) {
    const std::uint32_t word = std::uint32_t{value} << 16;
    const std::uint32_t sign = word & 0x80000000;
    const std::uint32_t twice = word + word;
    const float normal = std::bit_cast<float>((twice >> 4) + (std::uint32_t{0xe0} << 23)) * 0x1.0p-112F;
    const float small = std::bit_cast<float>((twice >> 17) | (std::uint32_t{126} << 23)) - 0.5F;
    const std::uint32_t bits = twice < (std::uint32_t{1} << 27) ? std::bit_cast<std::uint32_t>(small)
                                                                : std::bit_cast<std::uint32_t>(normal);
    return std::bit_cast<float>(sign | bits);
  }
  static Stored store(Wide value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t twice = word + word;
    const float base = (std::fabs(value) * 0x1.0p+112F) * 0x1.0p-110F;
    const std::uint32_t bias = std::max<std::uint32_t>(twice & 0xff000000, 0x71000000);
    const auto bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>((bias >> 1) + 0x07800000) + base);
    const std::uint32_t unsigned_half = ((bits >> 13) & 0x7c00) + (bits & 0x0fff);
    return static_cast<Stored>(((word & 0x80000000) >> 16) | (twice > 0xff000000 ? 0x7e00 : unsigned_half));
  }
};

// Combines integers as unsigned numbers, so that they wrap around.
template <class T, class Do>
T modular(T a, T b, Do each) {
  if constexpr (std::is_integral_v<T>) {
    using Whole = std::conditional_t<sizeof(T) < 4, std::uint32_t, std::make_unsigned_t<T>>;
    return static_cast<T>(each(static_cast<Whole>(a), static_cast<Whole>(b)));
  } else {
    return each(a, b);
  }
}

struct Sum {
  template <class T>
  static T of(T a, T b) {
    return modular(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct Average : Sum {};
struct Product {
  template <class T>
  static T of(T a, T b) {
    return modular(a, b, [](auto x, auto y) { return x * y; });
  }
};
struct Min {
  template <class T>
  static T of(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    return a < b ? b : a;
  }
};
struct And {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

enum class Use : bool { kRead, kWrite };

// Prefetches the cache lines of these bytes for reading or for writing. If a line is prefetched for writing,
// it moves only once from the cache of another processor, even if it is first read. If it is prefetched for
// reading and then written, it moves twice.
template <Use kUse>
void prefetch(const std::byte* begin, std::size_t bytes) {
  for (std::size_t at = kAheadBytes; at < kAheadBytes + bytes; at += kLineBytes) {
#if defined(__x86_64__)
    // For writing, this code does not use the compiler's builtin function. If the compiler does not know
    // whether the processor has the instruction prefetchw, the builtin prefetches for reading. A processor
    // without prefetchw ignores the instruction.
    if constexpr (kUse == Use::kWrite) {
      asm volatile("prefetchw %0" : : "m"(begin[at]));
      continue;
    }
#endif
    __builtin_prefetch(begin + at, kUse == Use::kWrite ? 1 : 0);
  }
}

// Combines `size` elements, beginning with the element `begin`. `size` is kBlock, except that the last block
// may be smaller. `ahead` says whether enough elements follow, so that some of them can be prefetched.
template <class Each, class Does>
void combine_block(std::span<std::byte* const> to, std::span<const std::byte* const> from, std::size_t begin,
                   std::size_t size, bool ahead) {
  using Stored = typename Each::Stored;
  typename Each::Wide block[kBlock];
  if (ahead) {
    for (const std::byte* const each : to)
      prefetch<Use::kWrite>(each + begin * sizeof(Stored), sizeof(Stored) * kBlock);
    for (const std::byte* const each : from)
      prefetch<Use::kRead>(each + begin * sizeof(Stored), sizeof(Stored) * kBlock);
  }
  const auto* const first = reinterpret_cast<const Stored*>(from[0]) + begin;
  for (std::size_t i = 0; i < size; ++i) block[i] = Each::load(first[i]);
  for (const std::byte* const each : from.subspan(1)) {
    const auto* const next = reinterpret_cast<const Stored*>(each) + begin;
    for (std::size_t i = 0; i < size; ++i) block[i] = Does::of(block[i], Each::load(next[i]));
  }
  if constexpr (std::is_same_v<Does, Average>) {
    // Rounds the sum before the division and the quotient after it. So the result is the same as if the
    // caller divided the sum.
    const auto all = static_cast<typename Each::Wide>(from.size());
    for (std::size_t i = 0; i < size; ++i) block[i] = Each::load(Each::store(block[i])) / all;
  }
  for (std::byte* const each : to) {
    auto* const result = reinterpret_cast<Stored*>(each) + begin;
    for (std::size_t i = 0; i < size; ++i) result[i] = Each::store(block[i]);
  }
}

template <class Each, class Does>
void combine(std::span<std::byte* const> to, std::span<const std::byte* const> from, std::size_t count) {
  // Near the end of the data, nothing is prefetched. The memory beyond the end belongs to another rank.
  constexpr std::size_t kAhead = kAheadBytes / sizeof(typename Each::Stored);
  std::size_t begin = 0;
  for (; begin + kBlock <= count; begin += kBlock)
    combine_block<Each, Does>(to, from, begin, kBlock, begin + kAhead + kBlock <= count);
  if (begin < count) combine_block<Each, Does>(to, from, begin, count - begin, false);
}

template <class Each>
Combine* floating(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum: return combine<Each, Sum>;
    case Reduction::kAverage: return combine<Each, Average>;
    case Reduction::kProduct: return combine<Each, Product>;
    case Reduction::kMin: return combine<Each, Min>;
    case Reduction::kMax: return combine<Each, Max>;
    default: return nullptr;
  }
}

template <class T>
Combine* integral(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum: return combine<Plain<T>, Sum>;
    case Reduction::kProduct: return combine<Plain<T>, Product>;
    case Reduction::kMin: return combine<Plain<T>, Min>;
    case Reduction::kMax: return combine<Plain<T>, Max>;
    case Reduction::kAnd: return combine<Plain<T>, And>;
    case Reduction::kOr: return combine<Plain<T>, Or>;
    case Reduction::kXor: return combine<Plain<T>, Xor>;
    default: return nullptr;
  }
}

Reduction of_bools(Reduction reduction) {
  if (reduction == Reduction::kSum) return Reduction::kMax;
  return reduction == Reduction::kProduct ? Reduction::kMin : reduction;
}

}  // namespace

std::size_t bytes_of(Type type) {
  switch (type) {
    case Type::kInt8:
    case Type::kUInt8:
    case Type::kBool: return 1;
    case Type::kHalf:
    case Type::kBFloat16: return 2;
    case Type::kFloat:
    case Type::kInt32: return 4;
    case Type::kDouble:
    case Type::kInt64: return 8;
  }
  return 0;
}

Combine* combine_of(Type type, Reduction reduction) {
  switch (type) {
    case Type::kFloat: return floating<Plain<float>>(reduction);
    case Type::kDouble: return floating<Plain<double>>(reduction);
    case Type::kHalf: return floating<Half>(reduction);
    case Type::kBFloat16: return floating<BFloat16>(reduction);
    case Type::kInt8: return integral<std::int8_t>(reduction);
    case Type::kUInt8: return integral<std::uint8_t>(reduction);
    case Type::kBool: return integral<std::uint8_t>(of_bools(reduction));
    case Type::kInt32: return integral<std::int32_t>(reduction);
    case Type::kInt64: return integral<std::int64_t>(reduction);
  }
  return nullptr;
}

}  // namespace muster::shm
