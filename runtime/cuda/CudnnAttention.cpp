//===- CudnnAttention.cpp -------------------------------------------------===//
#include "runtime/cuda/CudnnAttention.h"
#include <algorithm>
#include <cstdlib>
#include <limits>

using namespace cleave::cuda;
using namespace cleave::runtime;
using namespace cleave::runtime::cuda;
using namespace cleave::runtime::cuda::cudnn;

namespace {

using Dims = CudnnGraph::Dims;
using Tensor = CudnnGraph::Tensor;

/// What a plan is given.
enum TensorId : int64_t {
  idQ = 1,
  idK,
  idV,
  idOut,
  idLse,
  idDout,
  idDq,
  idDk,
  idDv,
  idDqSum,
  idDelta,
  idScale,
  idMasked,
  idWindow,
  idOne
};

/// The dims and strides of each kind of tensor, as [batch, head, row, column].
struct Shapes {
  explicit Shapes(const AttentionSizes &s)
      : q{s.batch, s.heads, s.seq, s.headDim},
        k{s.batch, s.kvHeads, s.seq, s.headDim},
        kTransposed{s.batch, s.kvHeads, s.headDim, s.seq},
        scores{s.batch, s.heads, s.seq, s.seq},
        rows{s.batch, s.heads, s.seq, 1},
        qStrides{s.seq * s.heads * s.headDim, s.headDim, s.heads * s.headDim,
                 1},
        kStrides{s.seq * s.kvHeads * s.headDim, s.headDim,
                 s.kvHeads * s.headDim, 1},
        kTransposedStrides{kStrides[0], kStrides[1], 1, kStrides[2]},
        scoresTransposedStrides{s.heads * s.seq * s.seq, s.seq * s.seq, 1,
                                s.seq},
        rowStrides{s.heads * s.seq, s.seq, 1, 1},
        packedStrides{s.heads * s.seq * s.headDim, s.seq * s.headDim, s.headDim,
                      1} {}

  Dims q, k, kTransposed, scores, rows;
  Dims qStrides, kStrides, kTransposedStrides, scoresTransposedStrides,
      rowStrides, packedStrides;
};

uint64_t align(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

} // namespace

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

/// scores where key <= query, and query < key + window; else minus infinity.
Tensor CudnnAttention::addMask(CudnnGraph &graph, Tensor scores) const {
  Dims dims = Shapes(sizes).scores;
  Tensor masked = graph.addScalar(idMasked, dataF32);
  auto select = [&](Tensor sees) {
    Tensor selected = graph.addVirtual(dataF32, dims);
    graph.addPointwise(pointwiseSelect, scores, masked, selected, sees);
    scores = selected;
  };
  auto addIndices = [&](Tensor &query, Tensor &key) {
    query = graph.addVirtual(dataI32, dims);
    key = graph.addVirtual(dataI32, dims);
    graph.addIndex(2, scores, query);
    graph.addIndex(3, scores, key);
  };
  Tensor query, key, sees = graph.addVirtual(dataBool, dims);
  addIndices(query, key);
  graph.addPointwise(pointwiseGreaterEqual, query, key, sees);
  select(sees);
  if (!hasWindow())
    return scores;
  Tensor window = graph.addScalar(idWindow, dataI32);
  Tensor end = graph.addVirtual(dataI32, dims);
  sees = graph.addVirtual(dataBool, dims);
  addIndices(query, key);
  graph.addPointwise(pointwiseAdd, key, window, end);
  graph.addPointwise(pointwiseGreater, end, query, sees);
  select(sees);
  return scores;
}

/// scores = mask(scale q k^T)
/// most   = max scores, p = exp(scores - most), total = sum p
/// lse    = most + log total
/// out    = (p / total) v
void CudnnAttention::addForward(CudnnGraph &graph) const {
  Shapes s(sizes);
  Tensor q = graph.addTensor(idQ, dataBF16, s.q, s.qStrides);
  Tensor k =
      graph.addTensor(idK, dataBF16, s.kTransposed, s.kTransposedStrides);
  Tensor v = graph.addTensor(idV, dataBF16, s.k, s.kStrides);
  Tensor out = graph.addTensor(idOut, dataBF16, s.q, s.qStrides);
  Tensor lse = graph.addTensor(idLse, dataF32, s.rows, s.rowStrides);
  Tensor scale = graph.addScalar(idScale, dataF32);

  Tensor products = graph.addVirtual(dataF32, s.scores);
  Tensor scaled = graph.addVirtual(dataF32, s.scores);
  graph.addMatmul(q, k, products);
  graph.addPointwise(pointwiseMul, products, scale, scaled);
  Tensor scores = addMask(graph, scaled);

  Tensor most = graph.addVirtual(dataF32, s.rows);
  Tensor below = graph.addVirtual(dataF32, s.scores);
  Tensor p = graph.addVirtual(dataF32, s.scores);
  Tensor total = graph.addVirtual(dataF32, s.rows);
  Tensor log = graph.addVirtual(dataF32, s.rows);
  Tensor weights = graph.addVirtual(dataBF16, s.scores);
  graph.addReduction(reduceMax, scores, most);
  graph.addPointwise(pointwiseSub, scores, most, below);
  graph.addPointwise(pointwiseExp, below, nullptr, p);
  graph.addReduction(reduceAdd, p, total);
  graph.addPointwise(pointwiseLog, total, nullptr, log);
  graph.addPointwise(pointwiseAdd, most, log, lse);
  graph.addPointwise(pointwiseDiv, p, total, weights);
  graph.addMatmul(weights, v, out);
}

/// delta  = sum(dout * out)
/// p      = exp(mask(scale q k^T) - lse)
/// dv     = sum over the heads of a group of p^T dout
/// dscore = scale p (dout v^T - delta)
/// dk     = sum over the heads of a group of dscore^T q
/// dq     = dscore k, added up in f32
void CudnnAttention::addBackward(CudnnGraph &graph) const {
  Shapes s(sizes);
  Tensor q = graph.addTensor(idQ, dataBF16, s.q, s.qStrides);
  Tensor k =
      graph.addTensor(idK, dataBF16, s.kTransposed, s.kTransposedStrides);
  Tensor v =
      graph.addTensor(idV, dataBF16, s.kTransposed, s.kTransposedStrides);
  Tensor out = graph.addTensor(idOut, dataBF16, s.q, s.qStrides);
  Tensor lse = graph.addTensor(idLse, dataF32, s.rows, s.rowStrides);
  Tensor dout = graph.addTensor(idDout, dataBF16, s.q, s.qStrides);
  Tensor dq = graph.addTensor(idDq, dataBF16, s.q, s.qStrides);
  Tensor dk = graph.addTensor(idDk, dataBF16, s.k, s.kStrides);
  Tensor dv = graph.addTensor(idDv, dataBF16, s.k, s.kStrides);
  Tensor dqSum = graph.addTensor(idDqSum, dataF32, s.q, s.packedStrides);
  Tensor delta = graph.addTensor(idDelta, dataF32, s.rows, s.rowStrides);
  Tensor scale = graph.addScalar(idScale, dataF32);
  // Of a dropout, which the engines expect.
  Tensor one = graph.addScalar(idOne, dataF32);

  Tensor terms = graph.addVirtual(dataF32, s.q);
  Tensor sums = graph.addVirtual(dataF32, s.rows);
  graph.addPointwise(pointwiseMul, dout, out, terms);
  graph.addReduction(reduceAdd, terms, sums);
  graph.addPointwise(pointwiseMul, sums, one, delta);

  Tensor products = graph.addVirtual(dataF32, s.scores);
  Tensor scaled = graph.addVirtual(dataF32, s.scores);
  Tensor below = graph.addVirtual(dataF32, s.scores);
  Tensor p = graph.addVirtual(dataF32, s.scores);
  graph.addMatmul(q, k, products);
  graph.addPointwise(pointwiseMul, products, scale, scaled);
  graph.addPointwise(pointwiseSub, scaled, lse, below);
  graph.addPointwise(pointwiseExp, addMask(graph, below), nullptr, p);

  /// sum = narrow(x)^T y, over the heads of each group.
  auto addTransposedMatmul = [&](Tensor x, Tensor y, Tensor sum) {
    Tensor transposed =
        graph.addVirtual(dataBF16, s.scores, s.scoresTransposedStrides);
    graph.addReshape(x, transposed);
    if (sizes.heads == sizes.kvHeads)
      return graph.addMatmul(transposed, y, sum);
    Tensor ofHeads = graph.addVirtual(dataBF16, s.q);
    graph.addMatmul(transposed, y, ofHeads);
    graph.addReduction(reduceAdd, ofHeads, sum);
  };
  addTransposedMatmul(p, dout, dv);

  Tensor dp = graph.addVirtual(dataF32, s.scores);
  Tensor dpBelow = graph.addVirtual(dataF32, s.scores);
  Tensor dscaled = graph.addVirtual(dataF32, s.scores);
  Tensor dscore = graph.addVirtual(dataF32, s.scores);
  graph.addMatmul(dout, v, dp);
  graph.addPointwise(pointwiseSub, dp, delta, dpBelow);
  graph.addPointwise(pointwiseMul, dpBelow, p, dscaled);
  graph.addPointwise(pointwiseMul, dscaled, scale, dscore);
  addTransposedMatmul(dscore, q, dk);

  Tensor keys = graph.addVirtual(dataF32, s.k, s.kStrides);
  graph.addReshape(k, keys);
  graph.addMatmul(dscore, keys, dqSum);
  graph.addPointwise(pointwiseIdentity, dqSum, nullptr, dq);
}

//===----------------------------------------------------------------------===//
// One shape
//===----------------------------------------------------------------------===//

/// What the engines do not say, or say wrong.
static Status checkSupport(const Cudnn &library, const AttentionSizes &sizes,
                           bool isGrad) {
  if (sizes.softcap > 0)
    return Status::error("scores are capped");
  if (sizes.seq < 2)
    return Status::error("one token is no sequence");
  // Up to there, rows past the end of the last tile were read as keys.
  if (isGrad && library.getVersion() <= 91500 && sizes.seq % 128 != 0)
    return Status::error("sequences of " + std::to_string(sizes.seq) +
                         ", which is no multiple of 128, need 9.15.1 or later");
  return Status();
}

Status CudnnAttention::create(const CudnnTarget &target,
                              const AttentionSizes &sizes, bool isGrad,
                              std::unique_ptr<CudnnAttention> &made) {
  CLEAVE_RETURN_IF_ERROR(checkSupport(target.library, sizes, isGrad));
  std::unique_ptr<CudnnAttention> result(new CudnnAttention(target, sizes));
  CudnnGraph graph(target.library);
  if (isGrad)
    result->addBackward(graph);
  else
    result->addForward(graph);
  CLEAVE_RETURN_IF_ERROR(graph.build(target, result->plan));
  if (isGrad) {
    uint64_t rows = uint64_t(sizes.batch * sizes.heads * sizes.seq);
    result->dqOffset = align(result->plan.getWorkspaceBytes());
    result->deltaOffset = result->dqOffset +
                          align(rows * uint64_t(sizes.headDim) * sizeof(float));
    result->sumBytes =
        result->deltaOffset + align(rows * sizeof(float)) - result->dqOffset;
  }
  made = std::move(result);
  return Status();
}

uint64_t CudnnAttention::getScratchBytes() const {
  return align(plan.getWorkspaceBytes()) + sumBytes;
}

Status CudnnAttention::runPlan(std::vector<int64_t> ids,
                               std::vector<const void *> pointers,
                               Address workspace) const {
  // Earlier ones take differences of infinities.
  const float masked = target.library.getVersion() < 91000
                           ? std::numeric_limits<float>::lowest()
                           : -std::numeric_limits<float>::infinity();
  const float scale = sizes.scale;
  const int32_t window = int32_t(sizes.window);
  ids.insert(ids.end(), {idScale, idMasked});
  pointers.insert(pointers.end(), {&scale, &masked});
  if (hasWindow()) {
    ids.push_back(idWindow);
    pointers.push_back(&window);
  }
  Status status = plan.run(target, ids, pointers, workspace);
  if (status.ok())
    return status;
  return Status::error(status.message() + "; with CLEAVE_ATTENTION=own the "
                                          "kernels of Cleave compute it");
}

Status CudnnAttention::run(const AttentionParams &params,
                           Address scratch) const {
  return runPlan({idQ, idK, idV, idOut, idLse},
                 {params.q, params.k, params.v, params.out, params.lse},
                 scratch);
}

Status CudnnAttention::run(const AttentionGradParams &params) const {
  const float one = 1;
  const char *scratch = static_cast<const char *>(params.scratch);
  return runPlan({idQ, idK, idV, idOut, idLse, idDout, idDq, idDk, idDv,
                  idDqSum, idDelta, idOne},
                 {params.q, params.k, params.v, params.out, params.lse,
                  params.dout, params.dq, params.dk, params.dv,
                  scratch + dqOffset, scratch + deltaOffset, &one},
                 reinterpret_cast<Address>(params.scratch));
}

//===----------------------------------------------------------------------===//
// All shapes
//===----------------------------------------------------------------------===//

CudnnAttentions::~CudnnAttentions() {
  made.clear();
  if (handle)
    library->api.destroy(handle);
}

Status CudnnAttentions::open() {
  isOpen = true;
  const char *text = std::getenv("CLEAVE_ATTENTION");
  std::string choice = text && *text ? text : "auto";
  if (choice != "own" && choice != "cudnn" && choice != "auto")
    return Status::error("the environment variable CLEAVE_ATTENTION is \"" +
                         choice + "\", expects \"own\", \"cudnn\" or \"auto\"");
  isRequired = choice == "cudnn";
  if (choice == "own") {
    refusal = "CLEAVE_ATTENTION is own";
    return Status();
  }
  Cudnn::open(library, refusal);
  if (!library)
    return Status();
  Status status = library->check(library->api.create(&handle), "create",
                                 __FILE__, __LINE__);
  if (!status.ok()) {
    handle = nullptr;
    refusal = status.message();
  }
  return Status();
}

Status CudnnAttentions::getVersion(std::string &version) {
  CLEAVE_RETURN_IF_ERROR(openOnce());
  version = handle ? library->getVersionText() : "none";
  return Status();
}

/// What is left to the kernels whatever cuDNN has.
static Status checkRequest(const AttentionRequest &request) {
  if (!request.isBF16)
    return Status::error("numbers are not bf16");
  if (request.fixedOrder)
    return Status::error("several ranks compute the same gradient, and cuDNN "
                         "adds in an order that differs from one to the other");
  return Status();
}

Status CudnnAttentions::find(const AttentionRequest &request,
                             uint64_t mostScratch,
                             const CudnnAttention *&found) {
  CLEAVE_RETURN_IF_ERROR(openOnce());
  const AttentionSizes &s = request.sizes;
  auto [place, isNew] = made.try_emplace(
      {s.batch, s.seq, s.heads, s.kvHeads, s.headDim, s.window, s.scale,
       s.softcap, request.isBF16, request.isGrad, request.fixedOrder});
  std::unique_ptr<CudnnAttention> &plan = place->second;
  Status status = checkRequest(request);
  if (isNew && handle && status.ok())
    status =
        CudnnAttention::create({*library, handle}, s, request.isGrad, plan);
  // One that was found before is in use.
  if (isNew && plan && plan->getScratchBytes() > mostScratch) {
    status =
        Status::error("cuDNN takes " + std::to_string(plan->getScratchBytes()) +
                      " bytes, which do not fit");
    plan.reset();
  }
  if (!status.ok() && refusal.empty())
    refusal = status.message();
  found = plan.get();
  if (!found && isRequired)
    return Status::error(
        "cuDNN cannot compute this attention, and the environment variable "
        "CLEAVE_ATTENTION is \"cudnn\": " +
        (status.ok() ? refusal : status.message()) +
        "; with CLEAVE_ATTENTION=auto the kernels of Cleave compute it");
  return Status();
}

Status CudnnAttentions::setStream(void *stream) const {
  CLEAVE_CUDNN(*library, setStream(handle, stream));
  return Status();
}

std::string CudnnAttentions::describe() const {
  if (made.empty())
    return "";
  auto count = std::ranges::count_if(
      made, [](const auto &each) { return each.second != nullptr; });
  std::string own =
      "own kernels" + (refusal.empty() ? "" : " (" + refusal + ")");
  if (count == 0)
    return own;
  std::string cudnn = "cuDNN " + library->getVersionText();
  return size_t(count) == made.size() ? cudnn : cudnn + " and " + own;
}
