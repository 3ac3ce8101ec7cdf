//===- Potentials.h - What the rest of a problem takes at least -----------===//
#ifndef CLEAVE_LIB_AUTOSHARD_POTENTIALS_H
#define CLEAVE_LIB_AUTOSHARD_POTENTIALS_H

#include "Costs.h"

namespace cleave::autoshard {

/// Lower bounds of what the ops to come take, by where the tensors between them
/// and those that have been are. They are the messages of sequential
/// tree-reweighted message passing (Kolmogorov, "Convergent Tree-Reweighted
/// Message Passing for Energy Minimization", 2006): each op and each input is a
/// node with its strategies or homes, and each tensor an edge from what makes
/// it to each op that needs it. A tensor that k ops need costs at least any
/// weighted mean of its k moves, so an edge costs its weight's part of its
/// move: a k-th, until `follow` says otherwise. Whatever the messages are, what
/// they bound is right; more passes make the bounds better.
class Potentials {
public:
  /// `steps`: the ops, in the order in which they are decided. `lists` must
  /// outlive it.
  Potentials(Costs &costs, llvm::ArrayRef<size_t> steps,
             const StrategyLists &lists);

  /// Forth and back. Stops when the bound of all grows by less than a
  /// thousandth.
  void improve(unsigned mostPasses);

  /// To be called when costs are others. Messages stay as they are, and so are
  /// nearer to what they will be than none at all.
  void update();

  /// What all ops take at least.
  double getBound() const { return rests.front(); }
  /// What ops from a step on take at least, besides what `getMade` and
  /// `getNeeded` say of the tensors before them.
  double getRest(size_t step) const { return rests[step]; }
  /// Of a tensor that is made: for each place, what is to be added.
  std::vector<double> getMade(size_t tensor, size_t step) const;
  /// Of a tensor that is not, of each op before `step` that needs it: for each
  /// place, what is to be added if it needs it there.
  std::vector<std::vector<double>> getNeeded(size_t tensor, size_t step) const;
  /// Of a tensor that is not made, and is needed in these places: what is to be
  /// added because it is moved to each of them. An edge costs a part of its own
  /// move, as if all edges moved the tensor to one place; so of several places
  /// all moves but the dearest are left.
  double getApart(size_t tensor, llvm::ArrayRef<Place> needs);
  /// Which part of a tensor's moves the ops from a step on are said to cost.
  double getShare(size_t tensor, size_t step) const;
  /// By op: so many of its strategies, those with which all ops take the least
  /// by these bounds, in their order; and its first one, which splits nothing,
  /// so that some choice of them can be completed.
  StrategyLists getBest(size_t most) const;
  /// Says that a tensor costs what it is moved for in this choice, as far as it
  /// is: so the bounds of choices that are like it are better.
  void follow(const ShardingChoice &choice);

private:
  struct Node {
    size_t step = 0; ///< an input comes behind the last op that needs it
    bool isInput = false;
    size_t number = 0;            ///< of the op or the input
    std::vector<double> own, all; ///< by state: its cost; with all messages
    llvm::SmallVector<size_t, 6> edges;
  };
  /// The places at one end of an edge.
  struct End {
    std::vector<Place> places;     ///< those that occur, ascending
    std::vector<uint32_t> byState; ///< of the node: which of them
    std::vector<double> message;   ///< to the node, by which of them
  };
  /// What a tensor's moves cost, of which an edge costs its share: from each
  /// place of its maker to each of its user; and the same the other way round.
  struct Moves {
    std::vector<double> forth, back;
  };
  struct Edge {
    size_t tensor = 0, maker = 0, user = 0; ///< nodes
    double share = 0;                       ///< of the tensor's move
    End made, needed;
    std::shared_ptr<const Moves> moves;
  };

  void addNodes(llvm::ArrayRef<size_t> steps);
  void setCosts(Node &node);
  void addEdges();
  void addMoves();
  void pass(bool isForth);
  static End collect(llvm::ArrayRef<Place> byState);
  void sum(Node &node);
  void send(size_t from, Edge &edge, double share);
  void setRests();

  Costs &costs;
  const StrategyLists &lists;
  std::vector<Node> nodes; ///< in order
  std::vector<Edge> edges;
  std::vector<llvm::SmallVector<size_t, 4>> byTensor; ///< edges
  std::vector<double> rests;                          ///< by step
  std::vector<double> scratch;                        ///< kept for its memory
  bool isNear = false; ///< messages are those of nearly the same costs
  /// By tensor and places: what getApart has said.
  std::vector<llvm::StringMap<double>> apart;
};

} // namespace cleave::autoshard

#endif // CLEAVE_LIB_AUTOSHARD_POTENTIALS_H
