#include "runtime/parallel/model_description.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

const ModelDescription kModel{
    {"parameter 'a'", "Float [2]"}, {"parameter 'b'", "Float [3]"}, {"buffer 'c'", ""}};

TEST(ModelDescription, SurvivesItsTextForm) {
  EXPECT_EQ(description_from(to_text(kModel)), kModel);
  EXPECT_EQ(description_from(""), ModelDescription{});
}

TEST(ModelDescription, EqualDescriptionsHaveNoDifference) {
  EXPECT_EQ(first_difference({}, {}), std::nullopt);
  EXPECT_EQ(first_difference({kModel, kModel, kModel}, {0, 1, 2}), std::nullopt);
}

TEST(ModelDescription, ReportsTheLowestRankThatDiffers) {
  ModelDescription changed = kModel, longer = kModel, shorter = kModel, turned = kModel;
  changed[1].second = "Float [4]";
  longer.insert(longer.begin() + 1, {"parameter 'new'", "Float [5]"});
  shorter.erase(shorter.begin());
  std::swap(turned[0], turned[1]);
  EXPECT_EQ(first_difference({kModel, kModel, changed, shorter}, {0, 1, 2, 3}),
            "parameter 'b' is Float [3] on rank 0, but Float [4] on rank 2");
  EXPECT_EQ(first_difference({kModel, longer}, {0, 1}),
            "parameter 'new' (Float [5]) of rank 1 is missing on rank 0");
  EXPECT_EQ(first_difference({kModel, shorter}, {0, 1}),
            "parameter 'a' (Float [2]) of rank 0 is missing on rank 1");
  EXPECT_EQ(first_difference({kModel, {}}, {0, 1}),
            "parameter 'a' (Float [2]) of rank 0 is missing on rank 1");
  EXPECT_EQ(first_difference({{}, kModel}, {0, 1}),
            "parameter 'a' (Float [2]) of rank 1 is missing on rank 0");
  EXPECT_EQ(first_difference({kModel, turned}, {0, 1}),
            "parameter 'a' of rank 0 is in another place on rank 1");
}

}  // namespace
}  // namespace muster
