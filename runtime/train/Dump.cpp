//===- Dump.cpp -----------------------------------------------------------===//
#include "runtime/train/Dump.h"
#include "runtime/base/Quote.h"
#include "runtime/checkpoint/Export.h"
#include "runtime/executor/Gather.h"
#include <map>
#include <set>

using namespace cleave::runtime;
namespace fb = cleave::program;

namespace {

/// The parameter whose checkpoint layout an output has, or null.
const fb::State *getLayoutState(const Program &program,
                                const fb::Output &output) {
  const fb::State *state = program.findState(toView(output.state()));
  return state && !toView(state->source()).empty() ? state : nullptr;
}

std::string getGradName(const fb::State &state) {
  return "grad." + std::string(toView(state.source()));
}

Status addOutputs(const Program &program, SafetensorsLayout &layout) {
  std::set<std::string> grads;
  for (const fb::Output *each : program.getOutputs()) {
    const fb::Output &output = *each;
    auto logical = toSpan(output.logical());
    if (const fb::State *state = getLayoutState(program, output)) {
      if (!std::ranges::equal(logical, toSpan(state->logical())))
        return Status::error("output " + quote(toView(output.name())) +
                             " has logical shape " + formatList(logical) +
                             ", but its state has " +
                             formatList(toSpan(state->logical())));
      auto shape = toSpan(state->source_shape());
      if (grads.insert(getGradName(*state)).second)
        layout.add(getGradName(*state), "F32", {shape.begin(), shape.end()});
      continue;
    }
    uint64_t slices = std::max<uint64_t>(output.operand()->places(), 1);
    std::vector<uint64_t> shape(logical.begin(), logical.end());
    if (slices > 1)
      shape.empty() ? shape.push_back(slices) : void(shape[0] *= slices);
    layout.add(std::string(toView(output.name())),
               output.dtype() == fb::DType::I32 ? "I32" : "F32", shape);
  }
  return {};
}

} // namespace

Status OutputDump::create(Executor &executor, const std::string &path,
                          uint64_t steps, OutputDump &dump) {
  if (path.empty())
    return {};
  OutputDump result;
  result.isActive = true;
  Status status = addOutputs(executor.getProgram(), result.layout);
  result.layout.add("trajectory.loss", "F64", {steps});
  result.layout.add("trajectory.grad_norm", "F64", {steps});
  Communicator &communicator = executor.getCommunicator();
  if (status.ok() && communicator.getRank() == 0) {
    std::string header = result.layout.getHeader();
    status = OutputFile::create(path, result.layout.getFileSize(), result.file);
    if (status.ok())
      status = result.file.write(0, header.data(), header.size());
  }
  CLEAVE_RETURN_IF_ERROR(communicator.agree(status));
  dump = std::move(result);
  return {};
}

Status OutputDump::writeOutputs(Executor &executor) {
  if (!isActive)
    return {};
  const Program &program = executor.getProgram();
  Communicator &communicator = executor.getCommunicator();
  std::map<std::string, uint64_t, std::less<>> begins;
  for (const TensorInfo &tensor : layout.getTensors())
    begins[tensor.name] = tensor.begin;
  Status status; // of rank 0's writes; all ranks take part to the end
  for (const fb::Output *each : program.getOutputs()) {
    const fb::Output &output = *each;
    const fb::State *state = getLayoutState(program, output);
    uint64_t slices =
        state ? 1 : std::max<uint64_t>(output.operand()->places(), 1);
    uint64_t begin = state ? begins[getGradName(*state)]
                           : begins.find(toView(output.name()))->second;
    for (uint64_t s = 0; s < slices; ++s) {
      GlobalTensor tensor;
      CLEAVE_RETURN_IF_ERROR(gatherOutput(executor, output, tensor, s));
      if (communicator.getRank() != 0 || !status.ok())
        continue;
      std::vector<float> values;
      if (tensor.dtype == fb::DType::BF16) {
        values = toFloats(tensor);
        tensor.dtype = fb::DType::F32;
        const auto *bytes = reinterpret_cast<const std::byte *>(values.data());
        tensor.data.assign(bytes, bytes + values.size() * 4);
      }
      if (state)
        status =
            writeBox(StateBox(*state), tensor.dtype, tensor.data, begin, file);
      else
        status = file.write(begin + s * tensor.data.size(), tensor.data.data(),
                            tensor.data.size());
    }
  }
  return communicator.agree(status);
}

Status OutputDump::finish(Executor &executor, const std::vector<double> &losses,
                          const std::vector<double> &gradNorms) {
  if (!isActive)
    return {};
  Status status;
  if (executor.getCommunicator().getRank() == 0) {
    std::vector<TensorInfo> tensors = layout.getTensors();
    const TensorInfo &loss = tensors[tensors.size() - 2];
    const TensorInfo &norm = tensors[tensors.size() - 1];
    status = file.write(loss.begin, losses.data(), losses.size() * 8);
    if (status.ok())
      status = file.write(norm.begin, gradNorms.data(), gradNorms.size() * 8);
    if (status.ok())
      status = file.commit();
  }
  return executor.getCommunicator().agree(status);
}
