// MPI's types and operations for torch's. MPI lacks float16 and bfloat16, so they are created here: each
// addition is made in float and rounded, as Gloo does.
//
// Call the functions on the thread that makes the MPI calls (engine.h), once MPI is initialized, unless they
// are marked "any thread". Errors throw c10::Error.
#pragma once

#include <c10/core/ScalarType.h>
#include <mpi.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace muster::mpi {

// Any thread. Throws if the operation does not exist for the type. For bool the sum means "any", and the
// product "all".
void require_reducible(at::ScalarType type, const c10d::ReduceOp& op);

MPI_Datatype datatype_of(at::ScalarType type);
// For a mean this returns the sum: the caller divides.
MPI_Op operation_of(at::ScalarType type, const c10d::ReduceOp& op);

// Any thread. Divides the elements in place, on the calling thread.
void divide(void* data, std::int64_t count, at::ScalarType type, int divisor);

}  // namespace muster::mpi
