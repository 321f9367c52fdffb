#include "agent/core/mpi/lone_ranks.h"

#include <gtest/gtest.h>

namespace muster::agent {
namespace {

std::string remark_on(const std::set<std::string>& mapped) {
  for (const std::string& path : mapped) EXPECT_TRUE(tells_of_mpi(path)) << path;
  return remark_on_lone_ranks(mapped, 4);
}

TEST(LoneRanks, AreReportedWithTheFlagThatPutsThemIntoOneWorld) {
  const std::string module = "/v/site-packages/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so";
  const auto text = [](const std::string& library, const std::string& mpi) {
    return "the program uses MPI (" + library +
           "), but each of its 4 ranks is alone in MPI_COMM_WORLD: give --mpi " + mpi +
           ", or --mpi none if that is meant";
  };
  EXPECT_EQ(remark_on({module, "/v/lib/libmpi.so.40"}), text("libmpi.so.40", "pmix"));
  EXPECT_EQ(remark_on({module, "/v/lib/libmpi.so.12.0.0"}), text("libmpi.so.12", "pmi"));
  EXPECT_EQ(remark_on({module, "/v/lib/libmpi_abi.so.1"}), text("libmpi_abi.so.1", "pmi"));
  EXPECT_EQ(remark_on({module, "/v/lib/libmpi.so"}), text("libmpi.so", "pmi")) << "Intel's";
  EXPECT_EQ(remark_on({module, "/v/lib/libmpi.so", "/v/lib/libopen-pal.so.80"}), text("libmpi.so", "pmix"));
  EXPECT_EQ(remark_on({"/usr/lib/libmpi.so.40.30.4", "/usr/lib/openmpi3/mca_btl_self.so"}),
            text("libmpi.so.40", "pmix"));
  EXPECT_EQ(remark_on({"/usr/lib/libmpich.so.12.2.2", "/usr/lib/ucx/libuct_cma.so.0.0.0"}),
            text("libmpich.so.12", "pmi"));
}

TEST(LoneRanks, AreNotReportedBeforeMpiInit) {
  EXPECT_EQ(remark_on({"/usr/lib/libmpi.so.40"}), "") << "LibTorch can need it";
  EXPECT_EQ(remark_on({"/usr/lib/ucx/libuct_cma.so.0.0.0"}), "") << "other libraries use UCX, too";
  EXPECT_EQ(remark_on({}), "");
  EXPECT_FALSE(tells_of_mpi("/usr/lib/libc.so.6"));
}

}  // namespace
}  // namespace muster::agent
