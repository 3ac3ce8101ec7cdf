//===- Tcp.h - Ranks as processes that meet over TCP ----------------------===//
#ifndef CLEAVE_RUNTIME_COMM_TCP_TCP_H
#define CLEAVE_RUNTIME_COMM_TCP_TCP_H

#include "runtime/comm/ProcessWorld.h"
#include "runtime/comm/tcp/Connections.h"

namespace cleave::runtime {

/// The processes of torchrun, or of anything that sets its variables.
class TcpWorld : public ProcessWorld {
public:
  static Status start(std::unique_ptr<ProcessWorld> &world);
  ~TcpWorld() override;

  std::unique_ptr<Communicator> makeCommunicator(const Mesh &mesh) override;

private:
  std::unique_ptr<tcp::Connections> connections;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_TCP_TCP_H
