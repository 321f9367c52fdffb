// Finds out with which MPI a program was built. It looks at the names of the libraries that the program
// needs.
//
// It looks at the libraries that the program itself names. It does not look at the libraries that those
// libraries need. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "common/base/elf_file.h"
#include "common/wire/words.h"

namespace muster::wire {

// The libmpi.so of Open MPI has version 20 or later. Version 12 is that of MPICH and Intel MPI. libmpi_abi.so
// is the library of the standard ABI of MPI 5. MPICH 5 and Intel MPI have it, and Open MPI 5 does not.
constexpr Mpi mpi_of_library(std::string_view name) {
  for (const char* const begin : {"libmpich", "libmpi_abi.so", "libmpifort_abi.so", "libmpi_ilp64.so"}) {
    if (name.starts_with(begin)) return Mpi::kPmi;
  }
  if (!name.starts_with("libmpi.so") && !name.starts_with("libmpi_") && !name.starts_with("libmpifort.so"))
    return Mpi::kNone;
  return name.ends_with(".so.12") ? Mpi::kPmi : Mpi::kPmix;
}

// Returns the MPI that the program needs, according to the libraries that it names. Returns kNone for
// scripts, for programs without MPI, and for programs of another kind of machine.
inline Mpi mpi_of_program(const ReadAt& read) {
  for (const std::string& name : elf_needs(read)) {
    if (const Mpi mpi = mpi_of_library(name); mpi != Mpi::kNone) return mpi;
  }
  return Mpi::kNone;
}

}  // namespace muster::wire
