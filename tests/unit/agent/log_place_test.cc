#include "agent/core/output/log_place.h"

#include <gtest/gtest.h>
#include <set>

namespace muster::agent {
namespace {

struct Case {
  const char* what;
  bool remote, nonce_given, nonce_seen;
  std::set<std::string> usable;
  std::string directory;
  bool shared;
};

TEST(LogPlace, IsTheJobsDirectoryIfThatCanBeUsed) {
  const Case cases[] = {
      {"beside the launcher", false, true, false, {}, "/job", true},
      {"a shared directory", true, true, true, {}, "/job", true},
      {"another directory of that name", true, true, false, {"/job", "/own"}, "/job", false},
      {"one that cannot be made here", true, true, false, {"/own"}, "/own", false},
      {"none can be made here", true, true, false, {}, "/job", false},
      {"a launcher that leaves no nonce", true, false, false, {"/job", "/own"}, "/job", true},
      {"the same, which cannot be made here", true, false, false, {"/own"}, "/own", false},
  };
  for (const Case& each : cases) {
    const LogPlace place = choose_log_place({"/job", "/own", each.remote, each.nonce_given, each.nonce_seen},
                                            [&](const std::string& it) { return each.usable.contains(it); });
    EXPECT_EQ(place.directory, each.directory) << each.what;
    EXPECT_EQ(place.shared, each.shared) << each.what;
  }
}

TEST(LogPlace, IsTheJobsDirectoryOnAHostWithoutItsOwn) {
  const auto place =
      choose_log_place({"/job", "", true, true, false}, [](const std::string&) { return false; });
  EXPECT_EQ(place.directory, "/job");
  EXPECT_FALSE(place.shared);
}

TEST(LogPlace, MakesNoDirectoryThatIsNotChosen) {
  std::set<std::string> made;
  const auto make = [&](const std::string& it) { return made.insert(it).second; };
  (void)choose_log_place({"/job", "/own", true, true, true}, make);
  EXPECT_TRUE(made.empty());
  (void)choose_log_place({"/job", "/own", true, true, false}, make);
  EXPECT_EQ(made, std::set<std::string>{"/job"});
}

}  // namespace
}  // namespace muster::agent
