// Finds MPI's type for a type of torch, and MPI's operation for an operation of torch. MPI does not have
// float16 and bfloat16, so this code creates them. Each addition of such numbers is made in float and then
// rounded, as in Gloo.
//
// Call the functions on the thread that makes the MPI calls (engine.h), after MPI has been initialized. Only
// a function whose comment says "any thread" can be called on other threads. If a function fails, it throws
// c10::Error.
#pragma once

#include <c10/core/ScalarType.h>
#include <mpi.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace muster::mpi {

// Throws if MPI does not have this operation for this type. For bool, the sum means "any", and the product
// means "all". Any thread can call it.
void require_reducible(at::ScalarType type, const c10d::ReduceOp& op);

MPI_Datatype datatype_of(at::ScalarType type);
// Returns the operation of MPI for this operation of torch. For a mean, it returns the sum. The caller then
// divides.
MPI_Op operation_of(at::ScalarType type, const c10d::ReduceOp& op);

// Divides the elements in place, on the calling thread. Any thread can call it.
void divide(void* data, std::int64_t count, at::ScalarType type, int divisor);

}  // namespace muster::mpi
