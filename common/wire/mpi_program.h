// Finds out which MPI a program was built with, from the names of the libraries that it needs.
//
// Looks only at the libraries that the program itself needs, not at those that these need. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "common/base/elf_file.h"
#include "common/wire/words.h"

namespace muster::wire {

// Open MPI's libmpi has versions from 20 on; 12 is the interface of MPICH, which Intel MPI shares.
constexpr Mpi mpi_of_library(std::string_view name) {
  if (name.starts_with("libmpich")) return Mpi::kPmi;
  if (!name.starts_with("libmpi.so") && !name.starts_with("libmpi_") && !name.starts_with("libmpifort.so"))
    return Mpi::kNone;
  return name.ends_with(".so.12") ? Mpi::kPmi : Mpi::kPmix;
}

// kNone for scripts and for files that are not programs for this kind of machine.
inline Mpi mpi_of_program(const ReadAt& read) {
  for (const std::string& name : elf_needs(read)) {
    if (const Mpi mpi = mpi_of_library(name); mpi != Mpi::kNone) return mpi;
  }
  return Mpi::kNone;
}

}  // namespace muster::wire
