//===- MpiApi.h - The symbols of libmpi -----------------------------------===//
//
// mpi.h gives the types; its macros for handles (MPI_COMM_WORLD, MPI_BYTE)
// would need libmpi at link time, so the objects behind them are looked up too.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_MPIAPI_H
#define CLEAVE_RUNTIME_COMM_MPIAPI_H

#include "runtime/base/Status.h"
// The C++ bindings of old Open MPI would need libmpi at link time.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#ifndef OPEN_MPI
#error "mpi.h is not Open MPI's: configure without it"
#endif

// Every function that is called.
#define CLEAVE_MPI_FUNCTIONS(X)                                                \
  X(MPI_Abort)                                                                 \
  X(MPI_Allgather)                                                             \
  X(MPI_Allgatherv)                                                            \
  X(MPI_Alltoall)                                                              \
  X(MPI_Alltoallv)                                                             \
  X(MPI_Barrier)                                                               \
  X(MPI_Bcast)                                                                 \
  X(MPI_Comm_dup)                                                              \
  X(MPI_Comm_free)                                                             \
  X(MPI_Comm_rank)                                                             \
  X(MPI_Comm_set_errhandler)                                                   \
  X(MPI_Comm_size)                                                             \
  X(MPI_Comm_split)                                                            \
  X(MPI_Error_string)                                                          \
  X(MPI_Finalize)                                                              \
  X(MPI_Get_count)                                                             \
  X(MPI_Init_thread)                                                           \
  X(MPI_Isend)                                                                 \
  X(MPI_Recv)                                                                  \
  X(MPI_Test)                                                                  \
  X(MPI_Wait)

namespace cleave::runtime {

struct MpiApi {
#define CLEAVE_DECLARE(function) decltype(&::function) function = nullptr;
  CLEAVE_MPI_FUNCTIONS(CLEAVE_DECLARE)
#undef CLEAVE_DECLARE
  MPI_Comm world = nullptr;
  MPI_Comm messages = nullptr; ///< of all ranks, for nothing but messages
  MPI_Datatype byte = nullptr;
  bool allowsThreads = false; ///< several at a time: MPI_THREAD_MULTIPLE
  MPI_Errhandler errorsReturn = nullptr;

  /// Opens libmpi and finds the symbols.
  Status open();
  /// Success, or `call` and what MPI says of `code`.
  Status check(int code, const char *call) const;
};

} // namespace cleave::runtime

/// Calls api.function(...); a failure returns from the enclosing function.
#define CLEAVE_MPI(api, function, ...)                                         \
  CLEAVE_RETURN_IF_ERROR((api).check((api).function(__VA_ARGS__), #function))

#endif // CLEAVE_RUNTIME_COMM_MPIAPI_H
