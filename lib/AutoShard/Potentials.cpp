//===- Potentials.cpp - What the rest of a problem takes at least ---------===//
#include "Potentials.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <numeric>

using namespace cleave;
using namespace cleave::autoshard;

Potentials::Potentials(Costs &costs, llvm::ArrayRef<size_t> steps,
                       const StrategyLists &lists)
    : costs(costs), lists(lists), byTensor(costs.problem.tensors.size()),
      rests(steps.size() + 1, 0), apart(costs.problem.tensors.size()) {
  addNodes(steps);
  addEdges();
  setRests();
}

void Potentials::addNodes(llvm::ArrayRef<size_t> steps) {
  const ShardingProblem &problem = costs.problem;
  std::vector<size_t> last(problem.tensors.size(), ~size_t(0));
  for (auto [step, op] : llvm::enumerate(steps))
    for (size_t tensor : problem.ops[op].operands)
      last[tensor] = step;
  std::vector<llvm::SmallVector<size_t, 2>> inputs(steps.size());
  for (size_t tensor = 0; tensor != problem.tensors.size(); ++tensor)
    if (costs.isInput(tensor) && !costs.isFree[tensor] &&
        last[tensor] != ~size_t(0))
      inputs[last[tensor]].push_back(tensor);
  for (auto [step, op] : llvm::enumerate(steps)) {
    Node node;
    node.step = step;
    node.number = op;
    nodes.push_back(std::move(node));
    for (size_t tensor : inputs[step]) {
      Node input;
      input.step = step;
      input.isInput = true;
      input.number = tensor;
      nodes.push_back(std::move(input));
    }
  }
  for (Node &node : nodes)
    setCosts(node);
}

/// What its states cost by themselves.
void Potentials::setCosts(Node &node) {
  node.own.clear();
  if (node.isInput) {
    for (Place home : costs.homes[node.number])
      node.own.push_back(costs.getKeep(node.number, home));
    return;
  }
  for (uint32_t strategy : lists[node.number]) {
    double cost = costs.seconds[node.number][strategy];
    const Touches &own = costs.touches[node.number][strategy];
    for (auto [tensor, place] : own.makes) {
      cost += costs.getKeep(tensor, place);
      for (auto [other, need] : own.needs)
        if (other == tensor)
          cost += costs.getMove(tensor, place, need);
    }
    node.own.push_back(cost);
  }
}

void Potentials::update() {
  for (Node &node : nodes)
    setCosts(node);
  addMoves();
  setRests();
  isNear = true;
}

Potentials::End Potentials::collect(llvm::ArrayRef<Place> byState) {
  End end;
  end.places = byState;
  llvm::sort(end.places);
  end.places.erase(llvm::unique(end.places), end.places.end());
  for (Place place : byState)
    end.byState.push_back(
        uint32_t(llvm::lower_bound(end.places, place) - end.places.begin()));
  end.message.assign(end.places.size(), 0);
  return end;
}

/// Those of equal layers are the same.
void Potentials::addMoves() {
  using Ends = std::tuple<const void *, std::vector<Place>, std::vector<Place>>;
  std::map<Ends, std::shared_ptr<const Moves>> known;
  for (Edge &edge : edges) {
    const std::vector<Place> &froms = edge.made.places,
                             &tos = edge.needed.places;
    auto [at, isNew] =
        known.try_emplace({costs.getKind(edge.tensor), froms, tos});
    if (isNew) {
      auto moves = std::make_shared<Moves>();
      for (Place from : froms)
        for (Place to : tos)
          moves->forth.push_back(costs.getMove(edge.tensor, from, to));
      for (size_t to = 0; to != tos.size(); ++to)
        for (size_t from = 0; from != froms.size(); ++from)
          moves->back.push_back(moves->forth[from * tos.size() + to]);
      at->second = std::move(moves);
    }
    edge.moves = at->second;
  }
}

void Potentials::addEdges() {
  std::vector<size_t> maker(costs.problem.tensors.size(), ~size_t(0));
  for (auto [number, node] : llvm::enumerate(nodes))
    if (node.isInput)
      maker[node.number] = number;
    else
      for (size_t tensor : costs.problem.ops[node.number].results)
        maker[tensor] = number;
  for (auto [user, node] : llvm::enumerate(nodes)) {
    if (node.isInput)
      continue;
    const PlacedOp &op = costs.problem.ops[node.number];
    for (auto [operand, tensor] : llvm::enumerate(op.operands)) {
      if (maker[tensor] == ~size_t(0) || maker[tensor] == user ||
          llvm::is_contained(llvm::ArrayRef(op.operands).take_front(operand),
                             tensor))
        continue;
      Edge edge;
      edge.tensor = tensor;
      edge.maker = maker[tensor];
      edge.user = user;
      std::vector<Place> made, needed; // by state of either node
      const Node &from = nodes[edge.maker];
      if (from.isInput)
        made.assign(costs.homes[tensor].begin(), costs.homes[tensor].end());
      else
        for (uint32_t strategy : lists[from.number])
          for (auto [result, place] :
               costs.touches[from.number][strategy].makes)
            if (result == tensor)
              made.push_back(place);
      // An op that needs a tensor in two places needs it in one of them.
      for (uint32_t strategy : lists[node.number]) {
        auto needs = costs.touches[node.number][strategy].needs;
        needed.push_back(llvm::find_if(needs, [&, tensor = tensor](auto touch) {
                           return touch.first == tensor;
                         })->second);
      }
      edge.made = collect(made);
      edge.needed = collect(needed);
      nodes[edge.maker].edges.push_back(edges.size());
      nodes[edge.user].edges.push_back(edges.size());
      byTensor[tensor].push_back(edges.size());
      edges.push_back(std::move(edge));
    }
  }
  for (Edge &edge : edges)
    edge.share = 1 / double(byTensor[edge.tensor].size());
  addMoves();
}

void Potentials::follow(const ShardingChoice &choice) {
  isNear = false;
  auto getPlace = [&](size_t number, const Edge &edge) {
    const Node &node = nodes[number];
    const Touches &own =
        costs.touches[node.number][choice.strategies[node.number]];
    auto &touches = number == edge.maker ? own.makes : own.needs;
    return llvm::find_if(touches,
                         [&](auto touch) { return touch.first == edge.tensor; })
        ->second;
  };
  for (auto [tensor, own] : llvm::enumerate(byTensor)) {
    if (own.empty())
      continue;
    llvm::SmallVector<Place, 4> needs, all;
    for (size_t number : own) {
      needs.push_back(getPlace(edges[number].user, edges[number]));
      if (!llvm::is_contained(all, needs.back()))
        all.push_back(needs.back());
    }
    const Edge &first = edges[own.front()];
    Place made = nodes[first.maker].isInput
                     ? costs.getBestHome(tensor, all).first
                     : getPlace(first.maker, first);
    llvm::SmallVector<double, 4> moves;
    double sum = 0;
    for (Place need : needs) {
      moves.push_back(costs.getMove(tensor, made, need));
      sum += moves.back();
    }
    if (sum > 0)
      for (auto [number, move] : llvm::zip_equal(own, moves))
        edges[number].share = move / sum;
  }
}

void Potentials::improve(unsigned mostPasses) {
  constexpr unsigned inARow = 5;
  for (unsigned i = 0; i < mostPasses; i += inARow) {
    double before = getBound();
    for (unsigned j = 0; j != inARow; ++j) {
      pass(/*isForth=*/true);
      pass(/*isForth=*/false);
    }
    setRests();
    if ((i > 0 || isNear) && getBound() - before < inARow * 1e-3 * before)
      break;
  }
}

/// All that is known of a node's states.
void Potentials::sum(Node &node) {
  node.all = node.own;
  for (size_t number : node.edges) {
    const Edge &edge = edges[number];
    const End &end = &nodes[edge.maker] == &node ? edge.made : edge.needed;
    for (auto [state, place] : llvm::enumerate(end.byState))
      node.all[state] += end.message[place];
  }
}

/// Lowers `least`, by place of one end, to `given`, by place of the other, and
/// the move, of which `share` counts. `moves`: a row for each place of the
/// other.
static void addMove(llvm::MutableArrayRef<double> least,
                    llvm::ArrayRef<double> given, double share,
                    llvm::ArrayRef<double> moves) {
  for (auto [number, begin] : llvm::enumerate(given)) {
    const double *row = moves.data() + number * least.size();
    if (begin == impossible)
      continue;
    for (size_t to = 0; to != least.size(); ++to) {
      double sum = begin + share * row[to];
      least[to] = sum < least[to] ? sum : least[to];
    }
  }
}

void Potentials::send(size_t from, Edge &edge, double share) {
  Node &node = nodes[from];
  bool makes = edge.maker == from;
  const End &own = makes ? edge.made : edge.needed;
  std::vector<double> &sent = (makes ? edge.needed : edge.made).message;
  scratch.assign(own.places.size(), impossible);
  for (auto [state, place] : llvm::enumerate(own.byState))
    scratch[place] = std::min(scratch[place], share * node.all[state]);
  for (auto [best, received] : llvm::zip_equal(scratch, own.message))
    if (best != impossible)
      best -= received;
  llvm::fill(sent, impossible);
  addMove(sent, scratch, edge.share,
          makes ? edge.moves->forth : edge.moves->back);
  double least = *llvm::min_element(sent);
  if (least == impossible)
    return;
  for (double &each : sent)
    each -= least;
}

void Potentials::pass(bool isForth) {
  for (size_t i = 0; i != nodes.size(); ++i) {
    size_t number = isForth ? i : nodes.size() - 1 - i;
    Node &node = nodes[number];
    sum(node);
    unsigned ahead = 0;
    auto isAhead = [&](const Edge &edge) {
      size_t other = edge.maker == number ? edge.user : edge.maker;
      return (other > number) == isForth;
    };
    for (size_t edge : node.edges)
      ahead += isAhead(edges[edge]);
    unsigned behind = unsigned(node.edges.size()) - ahead;
    double share = 1 / double(std::max({ahead, behind, 1u}));
    for (size_t edge : node.edges)
      if (isAhead(edges[edge]))
        send(number, edges[edge], share);
  }
}

/// Of the nodes from a step on, and the edges from them to those before, what
/// remains of their costs when each has given to others what the messages say:
/// at least that is paid, besides what those before the step have been given.
void Potentials::setRests() {
  llvm::fill(rests, 0);
  for (auto &own : apart)
    own.clear();
  for (auto [number, node] : llvm::enumerate(nodes)) {
    sum(node);
    for (size_t each : node.edges) {
      const Edge &edge = edges[each];
      bool makes = edge.maker == number;
      if ((makes ? edge.user : edge.maker) > number)
        continue;
      const End &own = makes ? edge.made : edge.needed;
      const End &other = makes ? edge.needed : edge.made;
      scratch.clear();
      // What has no end is not chosen.
      for (double message : other.message)
        scratch.push_back(message == impossible ? impossible : -message);
      std::vector<double> least(own.places.size(), impossible);
      addMove(least, scratch, edge.share,
              makes ? edge.moves->back : edge.moves->forth);
      for (auto [each, message] : llvm::zip_equal(least, own.message))
        each = message == impossible ? impossible : each - message;
      for (auto [state, place] : llvm::enumerate(own.byState))
        node.all[state] += least[place];
    }
    rests[node.step] += *std::min_element(node.all.begin(), node.all.end());
  }
  for (size_t step = rests.size() - 1; step-- > 0;)
    rests[step] += rests[step + 1];
}

StrategyLists Potentials::getBest(size_t most) const {
  StrategyLists best(lists);
  for (const Node &node : nodes) {
    if (node.isInput || lists[node.number].size() <= most)
      continue;
    std::vector<size_t> states(node.all.size());
    std::iota(states.begin(), states.end(), size_t(0));
    llvm::sort(states, [&](size_t a, size_t b) {
      return std::pair(node.all[a], a) < std::pair(node.all[b], b);
    });
    states.resize(most);
    if (!llvm::is_contained(states, 0))
      states.push_back(0);
    llvm::sort(states);
    std::vector<uint32_t> &own = best[node.number];
    own.clear();
    for (size_t state : states)
      own.push_back(lists[node.number][state]);
  }
  return best;
}

double Potentials::getApart(size_t tensor, llvm::ArrayRef<Place> needs) {
  if (needs.size() < 2 || byTensor[tensor].empty())
    return 0;
  const Edge &edge = edges[byTensor[tensor].front()];
  const Node &node = nodes[edge.maker];
  // Several tensors of one op could each add what one of its states takes.
  if (!node.isInput && costs.problem.ops[node.number].results[0] != tensor)
    return 0;
  auto [at, isNew] = apart[tensor].try_emplace(asString(needs), 0);
  if (!isNew)
    return at->second;
  std::vector<double> added;
  for (Place from : edge.made.places) {
    double sum = 0, most = 0;
    for (Place need : needs) {
      double move = costs.getMove(tensor, from, need);
      sum += move;
      most = std::max(most, move);
    }
    added.push_back(sum == impossible ? impossible : sum - most);
  }
  double least = impossible;
  for (auto [state, place] : llvm::enumerate(edge.made.byState))
    least = std::min(least, node.all[state] + added[place]);
  double before = *std::min_element(node.all.begin(), node.all.end());
  return at->second = least == impossible ? impossible : least - before;
}

double Potentials::getShare(size_t tensor, size_t step) const {
  double sum = 0;
  for (size_t number : byTensor[tensor])
    if (nodes[edges[number].user].step >= step)
      sum += edges[number].share;
  return sum;
}

std::vector<double> Potentials::getMade(size_t tensor, size_t step) const {
  std::vector<double> all(costs.places[tensor]->size(), 0);
  for (size_t number : byTensor[tensor])
    if (const Edge &edge = edges[number]; nodes[edge.user].step >= step)
      for (auto [place, message] :
           llvm::zip_equal(edge.made.places, edge.made.message))
        all[place] += message;
  return all;
}

std::vector<std::vector<double>> Potentials::getNeeded(size_t tensor,
                                                       size_t step) const {
  std::vector<std::vector<double>> all;
  for (size_t number : byTensor[tensor])
    if (const Edge &edge = edges[number]; nodes[edge.user].step < step) {
      std::vector<double> &own =
          all.emplace_back(costs.places[tensor]->size(), 0);
      for (auto [place, message] :
           llvm::zip_equal(edge.needed.places, edge.needed.message))
        own[place] = message;
    }
  return all;
}
