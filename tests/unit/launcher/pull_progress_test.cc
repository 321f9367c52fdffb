#include "launcher/core/view/pull_progress.h"

#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

TEST(PullProgress, CountsLayersAndMegabytes) {
  PullProgress pull;
  EXPECT_EQ(pull.text(), "its registry has not answered yet");
  pull.hear(R"({"status":"Pulling from library/debian","id":"12"})");
  EXPECT_EQ(pull.text(), "its registry has not answered yet");
  pull.hear(R"({"status":"Pulling fs layer","progressDetail":{},"id":"aa"})");
  pull.hear(R"({"status":"Already exists","progressDetail":{},"id":"bb"})");
  EXPECT_EQ(pull.text(), "1 of 2 layers, 0 of 0 MB");
  pull.hear(R"({"status":"Downloading","progressDetail":{"current":20000000,"total":100000000},"id":"aa"})");
  EXPECT_EQ(pull.text(), "1 of 2 layers, 20 of 100 MB");
  pull.hear(R"({"status":"Pull complete","progressDetail":{},"id":"aa"})");
  EXPECT_EQ(pull.text(), "2 of 2 layers, 100 of 100 MB");
  EXPECT_EQ(pull.error(), "");
}

TEST(PullProgress, KeepsTheErrorAsOneLine) {
  PullProgress pull;
  pull.hear(R"({"errorDetail":{"message":"x"},"error":"manifest\nunknown"})");
  EXPECT_EQ(pull.error(), "manifest?unknown");
}

TEST(PullProgress, ToleratesAnyInput) {
  PullProgress pull;
  for (const char* line : {"", "pulling", "[]", "null", "7", R"({"status":7,"id":"x"})", R"({"id":"x"})",
                           R"({"error":7})", R"({"status":"Downloading","id":["x"]})"})
    pull.hear(line);
  EXPECT_EQ(pull.text(), "its registry has not answered yet");
  for (const char* detail : {R"("y")", R"({"current":"y","total":null})", R"({"current":-1,"total":1e300})"})
    pull.hear(std::string(R"({"status":"Downloading","id":"x","progressDetail":)") + detail + "}");
  EXPECT_EQ(pull.text(), "0 of 1 layers, 0 of 0 MB");
  for (int layer = 0; layer < 2000; ++layer)
    pull.hear(R"({"status":"Downloading","id":")" + std::to_string(layer) +
              R"(","progressDetail":{"current":18446744073709551615,"total":18446744073709551615}})");
  EXPECT_TRUE(pull.text().starts_with("0 of 1000 layers, "));
  EXPECT_EQ(pull.error(), "");
}

}  // namespace
}  // namespace muster::launcher
