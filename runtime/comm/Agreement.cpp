//===- Agreement.cpp ------------------------------------------------------===//
#include "runtime/comm/Agreement.h"
#include "runtime/base/Quote.h"
#include "runtime/base/RankNames.h"
#include <algorithm>
#include <cstring>

using namespace cleave::runtime;

namespace {

/// What each rank sends first. Its size is for ever: other versions of the
/// runtime must understand each other up to here.
struct Digest {
  uint64_t version = 1;
  uint64_t hash = 0, bytes = 0; ///< of the items as text

  bool operator==(const Digest &) const = default;
};

/// FNV-1a (Fowler, Noll, Vo).
uint64_t computeHash(const std::string &text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

/// Each string behind its length.
std::string encode(const std::vector<AgreementItem> &items) {
  std::string text;
  for (const AgreementItem &item : items)
    for (const std::string *each : {&item.what, &item.value}) {
      uint64_t size = each->size();
      text.append(reinterpret_cast<const char *>(&size), sizeof(size));
      text += *each;
    }
  return text;
}

/// What encode() was given; ends early where it was not encode().
std::vector<AgreementItem> decode(std::string_view text) {
  std::vector<AgreementItem> items;
  auto take = [&](std::string &out) {
    uint64_t size;
    if (text.size() < sizeof(size))
      return false;
    std::memcpy(&size, text.data(), sizeof(size));
    text.remove_prefix(sizeof(size));
    if (size > text.size())
      return false;
    out = text.substr(0, size);
    text.remove_prefix(size);
    return true;
  };
  for (AgreementItem item; take(item.what) && take(item.value);)
    items.push_back(item);
  return items;
}

/// What differs between the items of rank 0 and those of `ranks`.
std::string describe(const std::vector<AgreementItem> &first,
                     const std::vector<AgreementItem> &other,
                     const std::vector<int> &ranks) {
  std::vector<std::string> differences;
  std::string where = nameRanks(ranks);
  auto find = [](const std::vector<AgreementItem> &items,
                 const std::string &what) {
    return std::find_if(items.begin(), items.end(),
                        [&](const auto &item) { return item.what == what; });
  };
  for (const AgreementItem &item : first) {
    auto its = find(other, item.what);
    if (its == other.end())
      differences.push_back(item.what + " is not known on " + where + ", and " +
                            quote(item.value) + " on rank 0");
    else if (its->value != item.value)
      differences.push_back(item.what + " is " + quote(its->value) + " on " +
                            where + ", but " + quote(item.value) +
                            " on rank 0");
  }
  for (const AgreementItem &item : other)
    if (find(first, item.what) == first.end())
      differences.push_back(item.what + " is " + quote(item.value) + " on " +
                            where + ", and not known on rank 0");
  if (differences.empty())
    differences.push_back("the order of what they have is another on " + where);
  std::string text;
  constexpr size_t most = 3;
  for (size_t i = 0; i < std::min(differences.size(), most); ++i)
    text += (i ? "; " : "") + differences[i];
  if (differences.size() > most)
    text += "; and " + std::to_string(differences.size() - most) + " more";
  return text;
}

} // namespace

Status cleave::runtime::agreeOnItems(Communicator &communicator,
                                     const std::vector<AgreementItem> &items) {
  // 1. The digests of all.
  const Group *world;
  CLEAVE_RETURN_IF_ERROR(communicator.getWorldGroup(world));
  std::string mine = encode(items);
  Digest digest;
  digest.hash = computeHash(mine);
  digest.bytes = mine.size();
  std::vector<Digest> digests(size_t(world->getSize()));
  CLEAVE_RETURN_IF_ERROR(communicator.allGather(*world, &digest, digests.data(),
                                                1, sizeof(Digest)));
  auto differs = [&](const Digest &each) { return each != digests[0]; };
  auto odd = std::find_if(digests.begin(), digests.end(), differs);
  if (odd == digests.end())
    return {};
  if (odd->version != digests[0].version)
    return communicator.agree(
        Status::error("the ranks run different versions of this runtime: " +
                      std::to_string(odd->version) + " on rank " +
                      std::to_string(odd - digests.begin()) + ", but " +
                      std::to_string(digests[0].version) + " on rank 0"));

  // 2. Of two that differ, all they have; every rank hears both.
  std::vector<int> alike;
  for (size_t rank = 0; rank < digests.size(); ++rank)
    if (digests[rank] == *odd)
      alike.push_back(int(rank));
  std::string first = mine, other = mine;
  CLEAVE_RETURN_IF_ERROR(communicator.broadcast(first, 0));
  CLEAVE_RETURN_IF_ERROR(communicator.broadcast(other, alike.front()));
  std::string message = "the ranks were not started alike: " +
                        describe(decode(first), decode(other), alike);
  auto numOdd = std::count_if(digests.begin(), digests.end(), differs);
  if (size_t(numOdd) > alike.size())
    message += "; " + std::to_string(size_t(numOdd) - alike.size()) +
               " more of them in another way";
  return communicator.agree(Status::error(message));
}
