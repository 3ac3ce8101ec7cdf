//===- Networks.cpp - A node's network, as sources print it ---------------===//
#include "Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include <utility>

using namespace cleave;

/// A number as digits at the end of `text`, which is cut off; 0 if there is
/// none.
static double takeNumber(llvm::StringRef &text) {
  text = text.rtrim(" (");
  size_t start = text.size();
  while (start > 0 &&
         (llvm::isDigit(text[start - 1]) || text[start - 1] == '.'))
    --start;
  double number = 0;
  if (start == text.size() || text.drop_front(start).getAsDouble(number))
    return 0;
  text = text.take_front(start);
  return number;
}

/// A count of cards as the last word of `text`; 0 if it is none.
static double getCount(llvm::StringRef text) {
  text = text.rtrim();
  size_t space = text.find_last_of(" :;,(/");
  llvm::StringRef word =
      space == llvm::StringRef::npos ? text : text.drop_front(space + 1);
  int64_t digits = 0;
  if (!word.getAsInteger(10, digits))
    return digits > 0 && digits <= 32 ? double(digits) : 0;
  return llvm::StringSwitch<double>(word.lower())
      .Case("one", 1)
      .Case("two", 2)
      .Case("four", 4)
      .Case("eight", 8)
      .Case("ten", 10)
      .Case("sixteen", 16)
      .Default(0);
}

/// Position in `text` of the first of `names`, and what goes with it.
template <size_t N>
static std::pair<size_t, double>
findFirst(llvm::StringRef text,
          const std::pair<llvm::StringRef, double> (&names)[N]) {
  std::pair<size_t, double> first{llvm::StringRef::npos, 0};
  for (auto [name, value] : names)
    if (size_t at = text.find(name); at < first.first)
      first = {at, value};
  return first;
}

static constexpr llvm::StringRef cardNames[] = {
    "NIC", "HCA", "card", " link", "adapter", "rail", "port"};

/// The count of network cards in the words before what they are called, which
/// may say their product and rate too: "8 ConnectX-7 adapters", "8 Mellanox 400
/// Gbps HCAs"; 0 if there is none.
static double getCards(llvm::StringRef text) {
  // Of what else a number may be.
  auto isOther = [](llvm::StringRef word) {
    for (llvm::StringRef other : {"Gb", "Tb", "node", "GPU", "server", "host"})
      if (word.starts_with_insensitive(other))
        return true;
    return false;
  };
  for (llvm::StringRef name : cardNames) {
    size_t at = text.find_insensitive(name);
    if (at == llvm::StringRef::npos)
      continue;
    llvm::StringRef clause = text.take_front(at);
    clause = clause.drop_front(clause.find_last_of(",;:") + 1);
    llvm::SmallVector<llvm::StringRef> words;
    clause.split(words, ' ', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
    llvm::StringRef next;
    for (llvm::StringRef word : llvm::reverse(words)) {
      if (double cards = getCount(word); cards > 1 && !isOther(next))
        return cards;
      next = word;
    }
  }
  return 0;
}

double cleave::getNodeGigabits(llvm::StringRef text, int64_t devicesPerNode) {
  static constexpr std::pair<llvm::StringRef, double> units[] = {
      {"Gb", 1}, {"Gigabit", 1}, {"Tb", 1000}, {"Terabit", 1000}};
  // What one card of a generation has.
  static constexpr std::pair<llvm::StringRef, double> generations[] = {
      {"EDR", 100}, {"HDR", 200},       {"NDR", 400},
      {"XDR", 800}, {"Omni-Path", 100}, {"OmniPath", 100}};
  auto [unit, scale] = findFirst(text, units);
  auto [named, cardRate] = findFirst(text, generations);
  double rate = 0;
  llvm::StringRef before, after;
  if (unit != llvm::StringRef::npos) {
    before = text.take_front(unit);
    after = text.drop_front(unit).split(' ').second;
    rate = takeNumber(before) * scale;
  } else if (named != llvm::StringRef::npos) {
    before = text.take_front(named);
    rate = cardRate;
  }
  if (rate == 0)
    return 0;
  before = before.rtrim();
  if (before.consume_back("x") || before.consume_back("×"))
    if (double cards = takeNumber(before))
      return rate * cards;
  after = after.ltrim();
  if (after.consume_front("x") || after.consume_front("×"))
    if (int64_t cards = 0;
        !after.ltrim().consumeInteger(10, cards) && cards > 0)
      return rate * double(cards);
  if (double cards = getCards(text))
    return rate * cards;
  bool ofCards = named != llvm::StringRef::npos;
  for (llvm::StringRef name : cardNames)
    ofCards |= says(text, name);
  if (ofCards)
    if (double cards = getCount(before))
      return rate * cards;
  bool ofCard = named != llvm::StringRef::npos;
  for (llvm::StringRef each : {"per ", "each ", "a ", "/"})
    for (llvm::StringRef what : {"gpu", "NIC", "card", "port"})
      ofCard |= says(text, (each + what).str());
  return ofCard && !says(text, "per node") ? rate * double(devicesPerNode)
                                           : rate;
}
