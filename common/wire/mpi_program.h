// Finds out with which MPI a program was built, from the names of the libraries that it needs.
//
// Looks only at the libraries that the program itself needs, not at those that its libraries need. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "common/base/elf_file.h"
#include "common/wire/words.h"

namespace muster::wire {

// Open MPI's libmpi.so has version 20 or later. Version 12 is that of MPICH and Intel MPI.
constexpr Mpi mpi_of_library(std::string_view name) {
  if (name.starts_with("libmpich")) return Mpi::kPmi;
  if (!name.starts_with("libmpi.so") && !name.starts_with("libmpi_") && !name.starts_with("libmpifort.so"))
    return Mpi::kNone;
  return name.ends_with(".so.12") ? Mpi::kPmi : Mpi::kPmix;
}

// Returns the MPI that the program needs. Returns kNone for scripts, and for files that are not programs for
// this kind of machine.
inline Mpi mpi_of_program(const ReadAt& read) {
  for (const std::string& name : elf_needs(read)) {
    if (const Mpi mpi = mpi_of_library(name); mpi != Mpi::kNone) return mpi;
  }
  return Mpi::kNone;
}

}  // namespace muster::wire
