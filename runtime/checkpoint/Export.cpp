//===- Export.cpp ---------------------------------------------------------===//
#include "runtime/checkpoint/Export.h"
#include "runtime/base/Quote.h"
#include "runtime/cpu/Bf16.h"
#include "runtime/program/Program.h"
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

using namespace cleave::runtime;
namespace cpu = cleave::cpu;
namespace fb = cleave::program;
namespace fs = std::filesystem;

std::vector<const fb::State *>
cleave::runtime::getExportedStates(const Program &program) {
  std::vector<const fb::State *> saved;
  for (const fb::State *state : program.getStates()) {
    if (!isWeight(*state))
      continue;
    auto isSameBox = [&](const fb::State *other) {
      return toView(other->source()) == toView(state->source()) &&
             std::ranges::equal(toSpan(other->view()), toSpan(state->view())) &&
             std::ranges::equal(toSpan(other->starts()),
                                toSpan(state->starts())) &&
             std::ranges::equal(toSpan(other->logical()),
                                toSpan(state->logical()));
    };
    auto same = std::find_if(saved.begin(), saved.end(), isSameBox);
    if (same == saved.end())
      saved.push_back(state);
    else if ((*same)->dtype() != fb::DType::F32 &&
             state->dtype() == fb::DType::F32)
      *same = state;
  }
  return saved;
}

namespace {

/// The boxes that make up one tensor.
struct SavedTensor {
  std::string_view name;
  std::span<const uint64_t> shape;
  std::vector<const fb::State *> parts;
};

/// Size of each dim of a state's box in its view.
std::vector<uint64_t> getBoxSizes(const fb::State &state) {
  auto drop = toSpan(state.drop());
  auto logical = toSpan(state.logical());
  std::vector<uint64_t> sizes;
  for (size_t v = 0, d = 0; v < getSize(state.view()); ++v)
    sizes.push_back(std::ranges::find(drop, v) != drop.end() ? 1
                                                             : logical[d++]);
  return sizes;
}

/// Whether two boxes of the same view share an element.
bool overlap(const fb::State &a, const fb::State &b) {
  if (!std::ranges::equal(toSpan(a.view()), toSpan(b.view())))
    return false; // told by the number of elements
  std::vector<uint64_t> sizesA = getBoxSizes(a), sizesB = getBoxSizes(b);
  auto startsA = toSpan(a.starts()), startsB = toSpan(b.starts());
  for (size_t d = 0; d < sizesA.size(); ++d)
    if (startsA[d] + sizesA[d] <= startsB[d] ||
        startsB[d] + sizesB[d] <= startsA[d])
      return false;
  return true;
}

Status checkCovered(const SavedTensor &tensor) {
  auto fail = [&](const std::string &how) {
    return Status::error("checkpoint tensor " + quote(tensor.name) +
                         " cannot be saved: " + how);
  };
  uint64_t expected = 1, covered = 0;
  for (uint64_t size : tensor.shape)
    expected *= size;
  for (size_t i = 0; i < tensor.parts.size(); ++i) {
    const fb::State &part = *tensor.parts[i];
    if (!std::ranges::equal(toSpan(part.source_shape()), tensor.shape))
      return fail("the program's states give it two shapes");
    uint64_t elements = 1;
    for (uint64_t size : toSpan(part.logical()))
      elements *= size;
    covered += elements;
    for (size_t j = 0; j < i; ++j)
      if (overlap(part, *tensor.parts[j]))
        return fail("states " + quote(toView(part.name())) + " and " +
                    quote(toView(tensor.parts[j]->name())) + " overlap in it");
  }
  if (covered != expected)
    return fail("the program's states hold " + std::to_string(covered) +
                " of its " + std::to_string(expected) + " elements");
  return {};
}

} // namespace

/// "model-00001-of-00002.safetensors".
static std::string getFileName(size_t index, size_t count) {
  if (count == 1)
    return "model.safetensors";
  char text[64];
  std::snprintf(text, sizeof(text), "model-%05zu-of-%05zu.safetensors",
                index + 1, count);
  return text;
}

static constexpr const char *indexName = "model.safetensors.index.json";

uint64_t ExportLayout::getBytes() const {
  uint64_t bytes = index.size();
  for (const File &file : files)
    bytes += file.tensors.getFileSize();
  return bytes;
}

Status cleave::runtime::makeExportLayout(const Program &program,
                                         uint64_t fileBytes,
                                         ExportLayout &layout) {
  std::vector<SavedTensor> tensors;
  std::map<std::string_view, size_t> byName;
  for (const fb::State *state : getExportedStates(program)) {
    std::string_view source = toView(state->source());
    auto [it, isNew] = byName.emplace(source, tensors.size());
    if (isNew)
      tensors.push_back({source, toSpan(state->source_shape()), {}});
    tensors[it->second].parts.push_back(state);
  }
  if (tensors.empty())
    return Status::error("the program has no parameters to save");

  // A tensor that no longer fits begins another file, as in huggingface_hub's
  // split_state_dict_into_shards_factory.
  ExportLayout result;
  uint64_t inFile = 0, elements = 0;
  for (const SavedTensor &tensor : tensors) {
    CLEAVE_RETURN_IF_ERROR(checkCovered(tensor));
    uint64_t count = 1;
    for (uint64_t size : tensor.shape)
      count *= size;
    if (result.files.empty() ||
        (inFile > 0 && inFile + count * 4 > fileBytes)) {
      result.files.emplace_back();
      inFile = 0;
    }
    inFile += count * 4;
    elements += count;
    result.files.back().tensors.add(std::string(tensor.name), "F32",
                                    {tensor.shape.begin(), tensor.shape.end()});
  }
  nlohmann::json index; // keys in order, as transformers writes them
  index["metadata"] = {{"total_parameters", elements},
                       {"total_size", elements * 4}};
  for (size_t i = 0; i < result.files.size(); ++i) {
    ExportLayout::File &file = result.files[i];
    file.name = getFileName(i, result.files.size());
    for (const TensorInfo &tensor : file.tensors.getTensors()) {
      result.places[tensor.name] = {i, tensor.begin};
      index["weight_map"][tensor.name] = file.name;
    }
  }
  if (result.files.size() > 1)
    result.index =
        index.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
        "\n";
  layout = std::move(result);
  return {};
}

/// Writes one run of a box into a tensor that begins at byte `begin`.
static Status writeRun(fb::DType dtype, const std::byte *values,
                       uint64_t source, uint64_t stride, uint64_t count,
                       uint64_t begin, OutputFile &file) {
  std::vector<float> wide;
  const float *data = reinterpret_cast<const float *>(values);
  if (dtype == fb::DType::BF16) {
    auto *in = reinterpret_cast<const uint16_t *>(values);
    wide.resize(count);
    for (uint64_t k = 0; k < count; ++k)
      wide[k] = cpu::fromBf16(in[k]);
    data = wide.data();
  }
  if (stride == 1)
    return file.write(begin + source * 4, data, count * 4);
  for (uint64_t k = 0; k < count; ++k)
    CLEAVE_RETURN_IF_ERROR(
        file.write(begin + (source + k * stride) * 4, data + k, 4));
  return {};
}

/// Elements at a time, so that a conversion's buffer is bounded.
static constexpr uint64_t pieceElements = 1 << 20;

Status cleave::runtime::writeBox(const StateBox &box, fb::DType dtype,
                                 std::span<const std::byte> local,
                                 uint64_t begin, OutputFile &file) {
  Status status;
  for (uint64_t i = 0; i < box.getSize() && status.ok(); i += pieceElements)
    box.forEachRun(
        i, std::min(box.getSize(), i + pieceElements),
        [&](uint64_t first, uint64_t source, uint64_t stride, uint64_t count) {
          if (status.ok())
            status = writeRun(dtype, local.data() + first * getBytes(dtype),
                              source, stride, count, begin, file);
        });
  return status;
}

/// Likewise of a payload of a checkpoint, which has no padding.
static Status writePayload(const StateBox &box, fb::DType dtype,
                           ShardFile &shard, const ShardFile::Entry &entry,
                           uint64_t begin, OutputFile &file) {
  Status status;
  std::vector<std::byte> values;
  uint64_t element = getBytes(dtype);
  for (uint64_t i = 0; i < box.getSize() && status.ok(); i += pieceElements) {
    uint64_t end = std::min(box.getSize(), i + pieceElements);
    values.resize((end - i) * element);
    status = shard.read(entry, i * element, values.size(), values.data());
    const std::byte *at = values.data();
    box.forEachRun(
        i, end,
        [&](uint64_t, uint64_t source, uint64_t stride, uint64_t count) {
          if (status.ok())
            status = writeRun(dtype, at, source, stride, count, begin, file);
          at += count * element;
        });
  }
  return status;
}

Status cleave::runtime::openShared(Communicator &communicator,
                                   const std::string &path, uint64_t size,
                                   OutputFile &file) {
  bool isFirst = communicator.getRank() == 0;
  OutputFile result;
  Status status;
  if (isFirst)
    status = OutputFile::create(path, size, result);
  CLEAVE_RETURN_IF_ERROR(communicator.agree(status));
  std::string temporary = result.getTemporaryPath();
  CLEAVE_RETURN_IF_ERROR(communicator.broadcast(temporary));
  if (!isFirst)
    status = OutputFile::join(temporary, result);
  CLEAVE_RETURN_IF_ERROR(communicator.agree(status));
  file = std::move(result);
  return {};
}

Status cleave::runtime::commitShared(Communicator &communicator,
                                     const Status &mine, OutputFile &file) {
  bool isFirst = communicator.getRank() == 0;
  CLEAVE_RETURN_IF_ERROR(
      communicator.agree(mine.ok() && !isFirst ? file.sync() : mine));
  return communicator.agree(isFirst ? file.commit() : Status());
}

/// Whether a file is one of a model folder's weights.
static bool isWeights(const std::string &name) {
  return name == indexName ||
         (name.starts_with("model") && name.ends_with(".safetensors"));
}

static std::vector<std::string> listWeights(const std::string &folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error))
    if (std::string name = it->path().filename().string(); isWeights(name))
      names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

Status cleave::runtime::prepareExport(const Program &program,
                                      const ExportOptions &options) {
  ExportLayout layout;
  CLEAVE_RETURN_IF_ERROR(makeExportLayout(program, options.fileBytes, layout));
  if (std::vector<std::string> names = listWeights(options.folder);
      !names.empty() && !options.overwrite)
    return Status::error(options.folder + ": has " + names.front() +
                         "; --overwrite replaces the weights in it");
  CLEAVE_RETURN_IF_ERROR(createFolder(options.folder));
  OutputFile probe; // removed without having had its name
  CLEAVE_RETURN_IF_ERROR(OutputFile::create(
      options.folder + "/" + layout.files.front().name, 0, probe));
  return checkFreeSpace(options.folder, layout.getBytes());
}

/// What rank 0 does once all tensors are on disk and before their files get
/// their names. An index of before would name a mixture of files while several
/// get theirs, so it goes first; a single file is replaced by its rename.
static Status beginFolder(const std::string &folder, const ExportLayout &layout,
                          std::string_view config) {
  CLEAVE_RETURN_IF_ERROR(writeWholeFile(folder + "/config.json", config));
  if (layout.files.size() == 1)
    return {};
  for (const char *name : {"model.safetensors", indexName}) {
    std::error_code error;
    fs::remove(folder + "/" + name, error);
    if (error)
      return Status::error(folder + "/" + name +
                           ": cannot remove: " + error.message());
  }
  return {};
}

/// And afterwards: the index goes last, so that where it is, all is. Weights of
/// before, under other names, are then removed.
static Status endFolder(const std::string &folder, const ExportLayout &layout) {
  if (!layout.index.empty())
    CLEAVE_RETURN_IF_ERROR(
        writeWholeFile(folder + "/" + indexName, layout.index));
  for (const std::string &name : listWeights(folder)) {
    bool isOurs = name == indexName && !layout.index.empty();
    for (const ExportLayout::File &file : layout.files)
      isOurs |= file.name == name;
    std::error_code error;
    if (!isOurs && !fs::remove(folder + "/" + name, error))
      return Status::error(folder + "/" + name +
                           ": cannot remove: " + error.message());
  }
  return {};
}

Status cleave::runtime::exportModel(Executor &executor,
                                    const ExportOptions &options) {
  const Program &program = executor.getProgram();
  const Mesh &mesh = program.getMesh();
  Communicator &communicator = executor.getCommunicator();
  int rank = communicator.getRank();

  // 1. Rank 0 makes the files, under temporary names.
  ExportLayout layout;
  CLEAVE_RETURN_IF_ERROR(
      communicator.agree(makeExportLayout(program, options.fileBytes, layout)));
  CLEAVE_RETURN_IF_ERROR(
      communicator.agree(rank == 0 ? createFolder(options.folder) : Status()));
  std::vector<OutputFile> files(layout.files.size());
  Status status;
  for (size_t i = 0; i < files.size(); ++i) {
    const ExportLayout::File &file = layout.files[i];
    CLEAVE_RETURN_IF_ERROR(openShared(communicator,
                                      options.folder + "/" + file.name,
                                      file.tensors.getFileSize(), files[i]));
    std::string header = file.tensors.getHeader();
    if (rank == 0 && status.ok())
      status = files[i].write(0, header.data(), header.size());
  }

  // 2. Each rank writes its parts.
  for (const fb::State *state : getExportedStates(program)) {
    if (!status.ok() || !isWriter(program, *state, rank))
      continue;
    const ExportLayout::Place &place =
        layout.places.find(toView(state->source()))->second;
    status =
        executor.read(*state->operand(), [&](std::span<const std::byte> local) {
          return writeBox(StateBox(*state, mesh, rank), state->dtype(), local,
                          place.begin, files[place.file]);
        });
  }

  // 3. The files get their names once all are whole.
  CLEAVE_RETURN_IF_ERROR(communicator.agree(status));
  if (rank == 0)
    status = beginFolder(options.folder, layout, toView(program->model()));
  CLEAVE_RETURN_IF_ERROR(communicator.agree(status));
  for (OutputFile &file : files)
    CLEAVE_RETURN_IF_ERROR(commitShared(communicator, {}, file));
  return communicator.agree(rank == 0 ? endFolder(options.folder, layout)
                                      : Status());
}

Status cleave::runtime::exportCheckpoint(CheckpointReader &reader,
                                         const ExportOptions &options) {
  const Program &program = reader.getProgram();
  CLEAVE_RETURN_IF_ERROR(prepareExport(program, options));
  ExportLayout layout;
  CLEAVE_RETURN_IF_ERROR(makeExportLayout(program, options.fileBytes, layout));
  std::vector<OutputFile> files(layout.files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    const ExportLayout::File &file = layout.files[i];
    CLEAVE_RETURN_IF_ERROR(OutputFile::create(options.folder + "/" + file.name,
                                              file.tensors.getFileSize(),
                                              files[i]));
    std::string header = file.tensors.getHeader();
    CLEAVE_RETURN_IF_ERROR(files[i].write(0, header.data(), header.size()));
  }
  for (const fb::State *state : getExportedStates(program)) {
    const ExportLayout::Place &place =
        layout.places.find(toView(state->source()))->second;
    CLEAVE_RETURN_IF_ERROR(reader.forEachPart(
        *state, [](const ShardBox &) { return true; },
        [&](int rank, const ShardBox &, ShardFile &shard,
            const ShardFile::Entry &entry) {
          return writePayload(StateBox(*state, program.getMesh(), rank),
                              state->dtype(), shard, entry, place.begin,
                              files[place.file]);
        }));
  }
  CLEAVE_RETURN_IF_ERROR(
      beginFolder(options.folder, layout, toView(program->model())));
  for (OutputFile &file : files)
    CLEAVE_RETURN_IF_ERROR(file.commit());
  return endFolder(options.folder, layout);
}
