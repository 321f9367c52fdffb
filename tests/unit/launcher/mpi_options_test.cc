#include "launcher/core/settings/mpi_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

using testing::HasSubstr;
using wire::Mpi;

std::optional<Mpi> said_in(std::string_view script) {
  const auto said = mpi_in_comment(script);
  EXPECT_TRUE(said) << said.error().message();
  return said.value_or(std::nullopt);
}

TEST(MpiOptions, AreReadFromAScriptsFirstComment) {
  EXPECT_EQ(said_in("# muster: --mpi pmix\nimport mpi4py\n"), Mpi::kPmix);
  EXPECT_EQ(said_in("#!/usr/bin/env python3\n#\n# Trains.\n#  muster:  --mpi=pmi"), Mpi::kPmi);
  EXPECT_EQ(said_in("#muster: --mpi none\n"), Mpi::kNone);
  EXPECT_EQ(said_in("# The muster: --mpi pmix\nx = 1\n# muster: --mpi pmix\n"), std::nullopt);
  EXPECT_EQ(said_in(""), std::nullopt);
}

TEST(MpiOptions, InACommentCanBeNothingElse) {
  for (const char* words : {"--mpi pmx", "--nodes 2", "--mpi", "--mpi pmix --nodes 2", ""}) {
    const auto said = mpi_in_comment(std::string("# muster: ") + words + "\n");
    ASSERT_FALSE(said) << words;
    EXPECT_EQ(said.error().message(), std::string("# muster: ") + words +
                                          ": such a comment can only say --mpi with auto, pmix, pmi or none");
  }
}

Mpi settled(Mpi asked, std::optional<Mpi> of_program, int rank_count = 2) {
  Plan plan;
  plan.job.mpi = asked;
  plan.nodes.emplace_back().worker_count = rank_count;
  settle_mpi(plan, of_program);
  return plan.job.mpi;
}

TEST(MpiOptions, KnowTheConfigurationThatForbidsWindowsBetweenHosts) {
  EXPECT_TRUE(leaves_out_windows("# osc = pt2pt\nbtl_base_warn_component_unused=0\nosc = ^ucx,pt2pt\n"));
  EXPECT_TRUE(leaves_out_windows("osc=^pt2pt"));
  EXPECT_FALSE(leaves_out_windows("#osc = ^ucx,pt2pt\nosc = ^ucx\npml = ^pt2pt\n"));
  EXPECT_FALSE(leaves_out_windows(""));
}

TEST(MpiOptions, AreThoseOfTheProgram) {
  EXPECT_EQ(settled(Mpi::kAuto, Mpi::kPmi), Mpi::kPmi);
  EXPECT_EQ(settled(Mpi::kPmix, Mpi::kPmi), Mpi::kPmix);
  EXPECT_EQ(settled(Mpi::kAuto, std::nullopt), Mpi::kAuto) << "the agents examine the program";
}

TEST(MpiOptions, LetAgentsLookForMpiInAScriptOfSeveralRanks) {
  EXPECT_EQ(settled(Mpi::kAuto, Mpi::kNone), Mpi::kAuto);
  EXPECT_EQ(settled(Mpi::kAuto, Mpi::kNone, 1), Mpi::kNone);
  EXPECT_EQ(settled(Mpi::kNone, Mpi::kNone), Mpi::kNone);
}

}  // namespace
}  // namespace muster::launcher
