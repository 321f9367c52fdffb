// Recognizes a rank that uses MPI although its agent serves no MPI. Such a rank is alone in MPI_COMM_WORLD,
// and does not notice that. Pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <set>
#include <string>
#include <string_view>

#include "common/wire/mpi_program.h"

namespace muster::agent {

inline std::string_view file_name_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// Returns "libmpi.so.40" for ".../libmpi.so.40.30.4", and "" for other files than MPI libraries.
inline std::string_view mpi_library_in(std::string_view path) {
  std::string_view name = file_name_of(path);
  const std::size_t version = name.find(".so.");
  if (version != std::string_view::npos) name = name.substr(0, name.find('.', version + 4));
  return wire::mpi_of_library(name) == wire::Mpi::kNone ? "" : name;
}

// Whether a rank maps such a file only when it calls MPI_Init. A mapped library is not enough: there are
// builds of LibTorch that need libmpi.so.40, and seldom call it. mpi4py calls MPI_Init when it is imported.
inline bool is_mapped_by_mpi_init(std::string_view path) {
  if (path.contains("/mpi4py/")) return file_name_of(path).starts_with("MPI.");
  return std::ranges::any_of(
      std::array{"mca_btl_", "mca_pml_", "libuct_", "sm_segment.", "vader_segment.", "mpich_shm_"},
      [name = file_name_of(path)](const char* begin) { return name.starts_with(begin); });
}

// Returns whether remark_on_lone_ranks() needs this path.
inline bool tells_of_mpi(std::string_view path) {
  return !mpi_library_in(path).empty() || is_mapped_by_mpi_init(path) ||
         file_name_of(path).starts_with("libopen-pal");
}

// `mapped` are the files that a rank has mapped, as far as tells_of_mpi() returns true for them. Returns a
// line for the user if they show that the rank has called MPI_Init. Otherwise returns "".
inline std::string remark_on_lone_ranks(const std::set<std::string>& mapped, std::int32_t world_size) {
  const auto library =
      std::ranges::find_if(mapped, [](const std::string& path) { return !mpi_library_in(path).empty(); });
  if (library == mapped.end() || std::ranges::none_of(mapped, is_mapped_by_mpi_init)) return "";
  const std::string_view name = mpi_library_in(*library);
  // libmpi.so without a version can be Open MPI's, which comes with libopen-pal, or Intel's.
  const bool is_open_mpi =
      name == "libmpi.so"
          ? std::ranges::any_of(mapped, [](const std::string& path) { return path.contains("/libopen-pal"); })
          : wire::mpi_of_library(name) == wire::Mpi::kPmix;
  return fmt::format(
      "the program uses MPI ({}), but each of its {} ranks is alone in MPI_COMM_WORLD: "
      "give --mpi {}, or --mpi none if that is meant",
      name, world_size, is_open_mpi ? "pmix" : "pmi");
}

}  // namespace muster::agent
