//===- Place.cpp ----------------------------------------------------------===//
#include "runtime/comm/tcp/Place.h"
#include "runtime/base/Quote.h"
#include <charconv>
#include <climits>
#include <cstdlib>
#include <string_view>

using namespace cleave::runtime;
using namespace cleave::runtime::tcp;

static Status describeMissing(const std::string &name) {
  return Status::error(
      "the tcp transport expects the variable " + name +
      ": start each rank by torchrun, or set RANK, WORLD_SIZE, MASTER_ADDR "
      "and MASTER_PORT for it");
}

static Status readNumber(const char *name, int least, int most, int &number) {
  const char *text = std::getenv(name);
  if (!text)
    return describeMissing(name);
  std::string_view digits = text;
  int value = 0;
  auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() ||
      value < least || value > most)
    return Status::error(
        "the variable " + std::string(name) + " is " + quote(text) +
        ", expects a number of at least " + std::to_string(least) +
        (most == INT_MAX ? "" : " and at most " + std::to_string(most)));
  number = value;
  return {};
}

Status tcp::readJoinSeconds(int &seconds) {
  seconds = 300;
  return std::getenv("CLEAVE_JOIN_SECONDS")
             ? readNumber("CLEAVE_JOIN_SECONDS", 1, 86400, seconds)
             : Status();
}

Status tcp::readPlace(Place &place) {
  Place read;
  CLEAVE_RETURN_IF_ERROR(readNumber("WORLD_SIZE", 1, INT_MAX, read.size));
  CLEAVE_RETURN_IF_ERROR(readNumber("RANK", 0, INT_MAX, read.rank));
  if (read.rank >= read.size)
    return Status::error("the variable RANK is " + std::to_string(read.rank) +
                         ", expects less than WORLD_SIZE, which is " +
                         std::to_string(read.size));
  const char *host = std::getenv("MASTER_ADDR");
  if (!host || !*host)
    return describeMissing("MASTER_ADDR");
  read.host = host;
  CLEAVE_RETURN_IF_ERROR(readNumber("MASTER_PORT", 1, 65534, read.port));
  // torchrun may listen at MASTER_PORT itself, for PyTorch's processes, and
  // then says so. It has no use for the next one.
  const char *agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  if (agent && std::string_view(agent) == "True")
    ++read.port;
  CLEAVE_RETURN_IF_ERROR(readJoinSeconds(read.seconds));
  place = read;
  return {};
}
