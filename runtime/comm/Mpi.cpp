//===- Mpi.cpp - Opening libmpi, starting and ending it -------------------===//
#include "runtime/comm/Mpi.h"
#include "runtime/comm/MpiApi.h"
#include "runtime/comm/MpiCommunicator.h"
#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

using namespace cleave::runtime;

Status MpiApi::open() {
  // Open MPI 4 and 5 share this ABI. Global: its plug-ins look symbols up.
  void *library = nullptr;
  std::string reasons;
  for (const char *name : {"libmpi.so.40", "libmpi.so"}) {
    library = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (library)
      break;
    const char *reason = ::dlerror();
    reasons += std::string(reasons.empty() ? "" : "; ") +
               (reason ? reason : "no reason given");
  }
  if (!library)
    return Status::error("the mpi backend cannot open Open MPI's library: " +
                         reasons + "; --transport tcp needs none");
  std::string missing;
  auto find = [&](const char *symbol) {
    void *address = ::dlsym(library, symbol);
    if (!address && missing.empty())
      missing = symbol;
    return address;
  };
#define CLEAVE_FIND(function)                                                  \
  function = reinterpret_cast<decltype(function)>(find(#function));
  CLEAVE_MPI_FUNCTIONS(CLEAVE_FIND)
#undef CLEAVE_FIND
  world = static_cast<MPI_Comm>(find("ompi_mpi_comm_world"));
  byte = static_cast<MPI_Datatype>(find("ompi_mpi_byte"));
  errorsReturn = static_cast<MPI_Errhandler>(find("ompi_mpi_errors_return"));
  if (!missing.empty())
    return Status::error("the mpi backend finds no " + missing +
                         " in libmpi: it is not Open MPI's");
  return {};
}

Status MpiApi::check(int code, const char *call) const {
  if (code == MPI_SUCCESS)
    return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return Status::error(std::string(call) + ": " + text);
}

/// With more ranks on this machine than cores, Open MPI must yield while it
/// waits; it does so by itself only under mpirun --oversubscribe.
static void yieldWhenOversubscribed(int threadsPerRank) {
  const char *count = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (!count)
    count = std::getenv("SLURM_NTASKS_PER_NODE");
  long ranks = count ? std::atol(count) : 1;
  if (ranks * threadsPerRank > ::sysconf(_SC_NPROCESSORS_ONLN))
    ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", /*overwrite=*/0);
}

MpiWorld::MpiWorld() : api(std::make_unique<MpiApi>()) {}

Status MpiWorld::start(int threadsPerRank,
                       std::unique_ptr<ProcessWorld> &world) {
  std::unique_ptr<MpiWorld> result(new MpiWorld);
  MpiApi &api = *result->api;
  Status opened = api.open();
  if (!opened.ok()) {
    api.MPI_Finalize = nullptr; // nothing to end
    return opened;
  }
  yieldWhenOversubscribed(threadsPerRank);
  int provided = 0;
  auto finalize = std::exchange(api.MPI_Finalize, nullptr);
  CLEAVE_MPI(api, MPI_Init_thread, nullptr, nullptr, MPI_THREAD_MULTIPLE,
             &provided);
  api.allowsThreads = provided >= MPI_THREAD_MULTIPLE;
  api.MPI_Finalize = finalize;
  CLEAVE_MPI(api, MPI_Comm_set_errhandler, api.world, api.errorsReturn);
  CLEAVE_MPI(api, MPI_Comm_rank, api.world, &result->rank);
  CLEAVE_MPI(api, MPI_Comm_size, api.world, &result->size);
  CLEAVE_MPI(api, MPI_Comm_dup, api.world, &api.messages);
  CLEAVE_MPI(api, MPI_Comm_set_errhandler, api.messages, api.errorsReturn);
  world = std::move(result);
  return {};
}

MpiWorld::~MpiWorld() {
  if (api->messages)
    api->MPI_Comm_free(&api->messages);
  if (api->MPI_Finalize)
    api->MPI_Finalize();
}

std::unique_ptr<Communicator> MpiWorld::makeCommunicator(const Mesh &mesh) {
  return std::make_unique<MpiCommunicator>(*api, mesh, rank);
}
