//===- LayerGraph.cpp - The ops of a layer as a drawing -------------------===//
#include "LayerGraph.h"
#include "Drawing.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace cleave;

namespace {
struct Node {
  size_t op;
  size_t row = 0, column = 0;
};

/// From a node to one that reads what it makes.
struct Edge {
  size_t from, to;
  std::string moves; ///< in words; empty if nothing is moved
};

class Graph {
public:
  Graph(const NamedStrategy &strategy, const LayerKind &kind,
        llvm::StringRef phase)
      : strategy(strategy), problem(strategy.problem) {
    for (size_t op : kind.ops)
      if (problem.ops[op].phase == phase &&
          problem.ops[op].keeps == Keeps::None &&
          strategy.explored.ops[op].seconds > 0) {
        numbers[op] = nodes.size();
        nodes.push_back({op});
      }
    for (auto [number, op] : llvm::enumerate(problem.ops))
      for (size_t tensor : op.results)
        makers.try_emplace(tensor, number);
    for (size_t node = 0; node != nodes.size(); ++node)
      connect(node);
    arrange();
  }

  void draw(HtmlWriter &html, std::vector<std::string> &palette) const;
  bool empty() const { return nodes.empty(); }

private:
  static constexpr double width = 216, height = 46, gapX = 22, gapY = 44,
                          margin = 12;

  void connect(size_t node);
  void arrange();
  std::string getMoves(size_t tensor, size_t op) const;
  double getX(const Node &node) const {
    double used = double(rows[node.row]) * (width + gapX) - gapX;
    return margin + (getInnerWidth() - used) / 2 +
           double(node.column) * (width + gapX);
  }
  double getY(const Node &node) const {
    return margin + double(node.row) * (height + gapY);
  }
  double getInnerWidth() const {
    size_t most = 2;
    for (size_t row : rows)
      most = std::max(most, row);
    return double(most) * (width + gapX) - gapX;
  }
  void drawNode(HtmlWriter &html, const Node &node, size_t colour) const;
  void drawEdge(HtmlWriter &html, const Edge &edge) const;

  const NamedStrategy &strategy;
  const ShardingProblem &problem;
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<size_t> rows;               ///< nodes of each
  llvm::DenseMap<size_t, size_t> numbers; ///< of nodes, by op
  llvm::DenseMap<size_t, size_t> makers;  ///< of tensors
};
} // namespace

/// What of a tensor is moved for an op.
std::string Graph::getMoves(size_t tensor, size_t op) const {
  for (const Move &move : strategy.explored.moves) {
    if (move.tensor != tensor || !llvm::is_contained(move.ops, op) ||
        move.getSeconds() == 0)
      continue;
    std::string text;
    double bytes = 0;
    for (const MoveStep &each : move.steps) {
      bytes = std::max(bytes, each.bytes);
      text += (text.empty() ? "" : " + ") + getName(each.step.kind).str() +
              " " + problem.mesh.toString(each.step.axes);
    }
    return llvm::formatv("{0}, {1:F2} MB, {2:F0} us", text, bytes * 1e-6,
                         move.getSeconds() * 1e6);
  }
  return "";
}

void Graph::connect(size_t node) {
  for (size_t operand : problem.ops[nodes[node].op].operands) {
    size_t reader = nodes[node].op, tensor = operand;
    std::string moves;
    // An op that says where a tensor is kept is on the edge.
    while (true) {
      std::string own = getMoves(tensor, reader);
      if (!own.empty())
        moves = moves.empty() ? own : own + " + " + moves;
      auto maker = makers.find(tensor);
      if (maker == makers.end())
        break;
      reader = maker->second;
      if (auto from = numbers.find(reader); from != numbers.end()) {
        if (from->second < node)
          edges.push_back({from->second, node, moves});
        break;
      }
      const PlacedOp &op = problem.ops[reader];
      if (op.keeps == Keeps::None || op.operands.size() != 1)
        break;
      tensor = op.operands[0];
    }
  }
}

void Graph::arrange() {
  // Nodes are in the order in which they run.
  for (const Edge &edge : edges)
    nodes[edge.to].row = std::max(nodes[edge.to].row, nodes[edge.from].row + 1);
  for (Node &node : nodes) {
    rows.resize(std::max(rows.size(), node.row + 1));
    node.column = rows[node.row]++;
  }
}

void Graph::drawNode(HtmlWriter &html, const Node &node, size_t colour) const {
  const ExploredOp &own = strategy.explored.ops[node.op];
  double x = getX(node), y = getY(node);
  html.element("g", {}, [&] {
    html.element("title", problem.ops[node.op].name + "\nsplits " + own.splits +
                              "\n" + own.placement);
    drawBox(html, "p" + std::to_string(colour), x, y, width, height);
    drawText(html, "node", x + width / 2, y + 19,
             getShortName(problem.ops[node.op]));
    drawText(
        html, "op", x + width / 2, y + 35,
        llvm::formatv("{0} · {1:F1} us", own.splits, own.seconds * 1e6).str());
  });
}

void Graph::drawEdge(HtmlWriter &html, const Edge &edge) const {
  const Node &from = nodes[edge.from], &to = nodes[edge.to];
  double x1 = getX(from) + width / 2, y1 = getY(from) + height;
  double x2 = getX(to) + width / 2, y2 = getY(to);
  // Past the boxes of rows between.
  if (to.row > from.row + 1 && std::abs(x1 - x2) < width) {
    x1 += width / 2 - 8;
    x2 += width / 2 - 8;
  }
  double bend = std::max((y2 - y1) / 2, 14.);
  double side = to.row > from.row + 1 ? 34 : 0;
  html.leaf(
      "path",
      {{"class", edge.moves.empty() ? "edge" : "edge moved"},
       {"d", "M" + formatPixels(x1) + " " + formatPixels(y1) + "C" +
                 formatPixels(x1 + side) + " " + formatPixels(y1 + bend) + " " +
                 formatPixels(x2 + side) + " " + formatPixels(y2 - bend) + " " +
                 formatPixels(x2) + " " + formatPixels(y2)}});
  if (edge.moves.empty())
    return;
  // At the end that it has to itself.
  size_t others = size_t(llvm::count_if(edges, [&](const Edge &other) {
    return other.to == edge.to && !other.moves.empty();
  }));
  bool isAtBegin = others > 1;
  drawText(html, "move",
           isAtBegin ? getX(from) + width / 2 : getX(to) + width / 2,
           isAtBegin ? y1 + 13 : y2 - 6, edge.moves);
}

void Graph::draw(HtmlWriter &html, std::vector<std::string> &palette) const {
  constexpr size_t colours = 8;
  std::vector<size_t> shown;
  auto getColour = [&](const Node &node) {
    auto at = llvm::find(palette, strategy.explored.ops[node.op].splits);
    size_t number = size_t(at - palette.begin());
    if (at == palette.end())
      palette.push_back(strategy.explored.ops[node.op].splits);
    if (!llvm::is_contained(shown, number))
      shown.push_back(number);
    return number % colours;
  };
  drawSVG(html, getInnerWidth() + 2 * margin,
          2 * margin + double(rows.size()) * (height + gapY) - gapY,
          "the ops of a layer", [&] {
            for (const Edge &edge : edges)
              drawEdge(html, edge);
            for (const Node &node : nodes)
              drawNode(html, node, getColour(node));
          });
  html.element("p", {{"class", "legend"}}, [&] {
    for (size_t number : shown)
      html.element("span", {}, [&] {
        html.element("i", {{"class", "p" + std::to_string(number % colours)}},
                     "");
        html.text("splits " + palette[number]);
      });
  });
}

void cleave::drawLayer(HtmlWriter &html, const NamedStrategy &strategy,
                       const LayerKind &kind, llvm::StringRef phase,
                       std::vector<std::string> &palette) {
  Graph graph(strategy, kind, phase);
  if (!graph.empty())
    graph.draw(html, palette);
}
