#include "common/wire/mpi_program.h"

#include <gtest/gtest.h>

#include "tests/elf_image.h"

namespace muster::wire {
namespace {

TEST(MpiProgram, IsRecognizedByItsLibrary) {
  EXPECT_EQ(mpi_of_library("libmpi.so.40"), Mpi::kPmix);
  EXPECT_EQ(mpi_of_library("libmpi_mpifh.so.40"), Mpi::kPmix);
  EXPECT_EQ(mpi_of_library("libmpi.so.12"), Mpi::kPmi) << "Intel's, and MPICH's elsewhere";
  EXPECT_EQ(mpi_of_library("libmpifort.so.12"), Mpi::kPmi);
  EXPECT_EQ(mpi_of_library("libmpich.so.12"), Mpi::kPmi);
  EXPECT_EQ(mpi_of_library("libmpichfort.so.12"), Mpi::kPmi);
  EXPECT_EQ(mpi_of_library("libmpi_abi.so.1"), Mpi::kPmi) << "the standard ABI: MPICH 5 and Intel";
  EXPECT_EQ(mpi_of_library("libmpifort_abi.so.1"), Mpi::kPmi);
  EXPECT_EQ(mpi_of_library("libmpi_ilp64.so.4"), Mpi::kPmi) << "Intel's";
  for (const char* other : {"libc.so.6", "libmpi", "libmpiwrapper.so", "libmpfr.so.6", ""})
    EXPECT_EQ(mpi_of_library(other), Mpi::kNone) << other;
  const std::string script = "#!/bin/sh\n";
  EXPECT_EQ(mpi_of_program(reader_of(script)), Mpi::kNone);
}

}  // namespace
}  // namespace muster::wire
