// MPI's words for torch's types of elements and operations; those that MPI has none for are made here:
// float16 and bfloat16, which are added up in float, one by one, as Gloo does it.
//
// Of the engine's thread, once MPI is started; what is asked by any thread says so. Errors throw c10::Error.
#pragma once

#include <c10/core/ScalarType.h>
#include <mpi.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace muster::mpi {

// By any thread: throws if there is none. Of bools the sum is true where one of them is, and the product
// where all are.
void require_reducible(at::ScalarType type, const c10d::ReduceOp& op);

MPI_Datatype datatype_of(at::ScalarType type);
// The mean is a sum: whoever asks for it divides.
MPI_Op operation_of(at::ScalarType type, const c10d::ReduceOp& op);

// By any thread: elements in place, on the thread that calls.
void divide(void* data, std::int64_t count, at::ScalarType type, int divisor);

}  // namespace muster::mpi
