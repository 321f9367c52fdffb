#include "common/base/error.h"

#include <cerrno>
#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Error, MessageGrowsOnItsWayUp) {
  Expected<int> failed = failure(ErrorCode::kNotFound, "cannot open {}", "manifest.json");
  Expected<int> higher = failure_within("cannot load step 400", std::move(failed));
  EXPECT_EQ(higher.error().message(), "cannot load step 400: cannot open manifest.json");
  EXPECT_EQ(higher.error().code(), ErrorCode::kNotFound);
}

TEST(Error, SystemFailureHasTheKernelsText) {
  const Error error = system_failure("cannot open x", ENOENT).error();
  EXPECT_EQ(error.message(), "cannot open x: No such file or directory");
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_EQ(system_failure("x", EACCES).error().code(), ErrorCode::kPermission);
  EXPECT_EQ(system_failure("x", ECONNREFUSED).error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(system_failure("x", EISDIR).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(system_failure("x", EMFILE).error().code(), ErrorCode::kInternal);
  EXPECT_EQ(system_failure("x", ENOSPC).error().code(), ErrorCode::kInternal);
}

}  // namespace
}  // namespace muster
