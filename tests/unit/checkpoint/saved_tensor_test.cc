#include "common/checkpoint/saved_tensor.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

namespace muster {
namespace {

using testing::HasSubstr;

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t up_to(std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(engine_);
  }

 private:
  std::mt19937 engine_;
};

// Splits at random places along random dimensions, piece by piece.
std::vector<Slice> cut(Random& random, const Extents& shape) {
  std::vector<Slice> pieces{whole_of(shape)};
  for (std::int64_t cuts = random.up_to(8); cuts > 0 && !shape.empty(); --cuts) {
    Slice& piece = pieces[static_cast<std::size_t>(random.up_to(std::ssize(pieces) - 1))];
    const auto d = static_cast<std::size_t>(random.up_to(std::ssize(shape) - 1));
    if (piece.sizes[d] < 2) continue;
    const std::int64_t first = 1 + random.up_to(piece.sizes[d] - 2);
    Slice rest = piece;
    piece.sizes[d] = first;
    rest.offsets[d] += first;
    rest.sizes[d] -= first;
    pieces.push_back(rest);
  }
  return pieces;
}

// Calls each(index in the tensor, position in the slice) for each element, in row-major order.
template <class Each>
void for_each_element(const Slice& slice, Each each) {
  if (std::ranges::find(slice.sizes, 0) != slice.sizes.end()) return;
  Extents at = slice.offsets;
  for (std::size_t position = 0;; ++position) {
    each(at, position);
    std::size_t d = at.size();
    for (; d > 0; --d) {
      if (++at[d - 1] < slice.offsets[d - 1] + slice.sizes[d - 1]) break;
      at[d - 1] = slice.offsets[d - 1];
    }
    if (d == 0) return;
  }
}

// The value of an element shows its place in the tensor.
std::uint32_t number_of(const Extents& shape, const Extents& index) {
  std::uint32_t number = 7;
  for (std::size_t d = 0; d < shape.size(); ++d)
    number = number * static_cast<std::uint32_t>(shape[d]) + static_cast<std::uint32_t>(index[d]);
  return number;
}

// The bytes of `slice`, element by element.
std::string content_of(const Extents& shape, const Slice& slice) {
  std::string content;
  for_each_element(slice, [&](const Extents& index, std::size_t) {
    const std::uint32_t number = number_of(shape, index);
    content.append(reinterpret_cast<const char*>(&number), sizeof number);
  });
  return content;
}

// Reads as a reader does.
std::string read(const std::vector<std::string>& files, const std::vector<PartCopy>& copies,
                 std::size_t bytes) {
  std::string content(bytes, '?');
  for (const PartCopy& copy : copies) {
    std::uint64_t last = 0;
    std::uint64_t copied = 0;
    for_each_run(copy, [&](std::uint64_t from, std::uint64_t to, std::uint64_t count) {
      EXPECT_GE(from, last) << "the runs are in the order of the file";
      last = from + count;
      copied += count;
      EXPECT_LE(to + count, content.size());
      content.replace(to, count, files[copy.file], from, count);
      return true;
    });
    EXPECT_EQ(last, copy.file_end());
    EXPECT_EQ(copied, copy.bytes());
  }
  return content;
}

// Random tensors of 0 to 4 dimensions, in random parts over random files, and random slices of them.
TEST(SavedTensor, EverySliceHasTheRightBytes) {
  Random random(20260501);
  for (int tensors = 0; tensors < 400; ++tensors) {
    Extents shape;
    for (std::int64_t dimensions = random.up_to(4); dimensions > 0; --dimensions)
      shape.push_back(1 + random.up_to(6));
    SavedTensor tensor{.dtype = Dtype::kI32, .shape = shape, .parts = {}};
    std::vector<std::string> files(3, "head");
    for (const Slice& piece : cut(random, shape)) {
      const auto file = static_cast<std::uint32_t>(random.up_to(2));
      tensor.parts.push_back({.file = file, .offset_bytes = files[file].size(), .slice = piece});
      files[file] += content_of(shape, piece);
    }
    ASSERT_TRUE(check_parts(tensor)) << check_parts(tensor).error().message();
    for (int slices = 0; slices < 10; ++slices) {
      Slice wanted = whole_of(shape);
      for (std::size_t d = 0; slices > 0 && d < shape.size(); ++d) {
        wanted.offsets[d] = random.up_to(shape[d]);
        wanted.sizes[d] = random.up_to(shape[d] - wanted.offsets[d]);
      }
      const auto copies = plan_slice(tensor, wanted);
      ASSERT_TRUE(copies) << copies.error().message();
      const std::string expected = content_of(shape, wanted);
      EXPECT_EQ(read(files, *copies, expected.size()), expected) << part_name("tensor", shape, wanted);
    }
  }
}

TEST(SavedTensor, OnePartTooManyOrTooFewIsDetected) {
  Random random(1);
  for (int tries = 0; tries < 300; ++tries) {
    const Extents shape{1 + random.up_to(5), 1 + random.up_to(5), 1 + random.up_to(5)};
    SavedTensor tensor{.dtype = Dtype::kF32, .shape = shape, .parts = {}};
    for (const Slice& piece : cut(random, shape))
      tensor.parts.push_back({.file = 0, .offset_bytes = 0, .slice = piece});
    ASSERT_TRUE(check_parts(tensor));
    SavedTensor more = tensor;
    more.parts.push_back(tensor.parts[static_cast<std::size_t>(random.up_to(std::ssize(tensor.parts) - 1))]);
    EXPECT_THAT(check_parts(more).error().message(), HasSubstr("overlap"));
    SavedTensor moved = tensor;
    Slice& slice = moved.parts.back().slice;
    const auto d = static_cast<std::size_t>(random.up_to(2));
    slice.sizes[d] += slice.offsets[d] > 0 ? 1 : -1;
    slice.offsets[d] -= slice.offsets[d] > 0 ? 1 : 0;
    EXPECT_FALSE(check_parts(moved));
    tensor.parts.pop_back();
    EXPECT_FALSE(check_parts(tensor));
  }
}

TEST(SavedTensor, AdjacentRowsAreOneRun) {
  const SavedTensor tensor{
      .dtype = Dtype::kF32, .shape = {100, 8, 8}, .parts = {{0, 1000, whole_of({100, 8, 8})}}};
  const auto rows = plan_slice(tensor, {{10, 0, 0}, {20, 8, 8}}).value();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0].loops.empty());
  EXPECT_EQ(rows[0].file_begin, 1000u + 10 * 256);
  EXPECT_EQ(rows[0].run_bytes, 20u * 256);
  const auto columns = plan_slice(tensor, {{0, 0, 2}, {100, 8, 3}}).value();
  ASSERT_EQ(columns[0].loops.size(), 2u);
  EXPECT_EQ(columns[0].run_bytes, 12u);
}

TEST(SavedTensor, ASliceOutsideTheTensorIsRefused) {
  const SavedTensor tensor{.dtype = Dtype::kF32, .shape = {4, 4}, .parts = {{0, 0, whole_of({4, 4})}}};
  EXPECT_EQ(plan_slice(tensor, {{0, 1}, {4, 4}}).error().message(),
            "[0:4,1:5] is not within the shape [4, 4]");
  EXPECT_FALSE(plan_slice(tensor, {{0}, {4}}));
  EXPECT_FALSE(plan_slice(tensor, {{-1, 0}, {1, 1}}));
  EXPECT_TRUE(plan_slice(tensor, {{4, 0}, {0, 4}}).value().empty());
}

TEST(SavedTensor, ElementsOfFourBitsAreSplitOnlyAtBytes) {
  const SavedTensor tensor{.dtype = Dtype::kF4, .shape = {4, 6}, .parts = {{0, 0, whole_of({4, 6})}}};
  EXPECT_EQ(plan_slice(tensor, {{1, 0}, {2, 6}}).value()[0].run_bytes, 6u);
  EXPECT_EQ(plan_slice(tensor, {{1, 2}, {2, 2}}).value()[0].run_bytes, 1u);
  EXPECT_THAT(plan_slice(tensor, {{1, 1}, {2, 2}}).error().message(), HasSubstr("splits a byte of F4"));
  EXPECT_THAT(plan_slice(tensor, {{1, 0}, {2, 3}}).error().message(), HasSubstr("splits a byte of F4"));
}

TEST(SavedTensor, TypesAreFoundByTheirNames) {
  for (const char* name : {"BOOL", "U8", "F4", "F8_E4M3", "F8_E5M2FNUZ", "BF16", "C64"})
    EXPECT_EQ(name_of(parse_dtype(name).value()), name);
  EXPECT_EQ(bits_of(Dtype::kF64), 64u);
  EXPECT_EQ(bits_of(Dtype::kF6E3M2), 6u);
  EXPECT_FALSE(parse_dtype("f32"));
}

}  // namespace
}  // namespace muster
