//===- Board.h - Where the ranks of a communicator meet -------------------===//
//
// A file that all ranks map, be they threads or processes. Its name is the
// unique id; once all ranks are there it has none, so nothing is left of it.
//
// Each rank has a slot, on which it posts a collective: its number, and where
// in the file the rank's data lie. A rank that has read what all others posted
// says so, and only then do they post the next. Each pair of ranks has a
// mailbox for messages from the one to the other, alike.
//
// A rank that lives holds a lock of the file, which ends with its process.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TEST_CUDA_NCCL_BOARD_H
#define CLEAVE_TEST_CUDA_NCCL_BOARD_H

#include "test/cuda/nccl/Codes.h"
#include <atomic>
#include <memory>
#include <span>
#include <string>

namespace cleave::simulated {

enum class Presence : uint32_t { Absent, Here, Left, Aborted };

/// Bytes of the file. Written by one rank, before it posts.
struct Extent {
  uint64_t offset = 0, capacity = 0, bytes = 0;
};

struct alignas(64) Slot {
  std::atomic<Presence> presence;
  std::atomic<uint64_t> posted; ///< the last collective that it posted
  std::atomic<uint64_t> read;   ///< the last that it read of all others
  Extent data;
  std::atomic<int> device; ///< plus 1; 0: not known yet
  uint64_t process, host;
};

struct alignas(64) Mailbox {
  std::atomic<uint64_t> posted; ///< the last message that was sent
  std::atomic<uint64_t> ready;  ///< the last that the receiver has come for
  std::atomic<uint64_t> taken;  ///< the last that it has
  Extent data;
  Wish wish;
};

class Board {
public:
  /// Makes one, and its name. False where there is no room for it.
  static bool create(std::string &path, std::string &why);
  /// Removes the file of an id that nobody came to.
  static void remove(const std::string &path);
  /// Takes the rank's place. Null and an ncclResult_t where it cannot.
  static std::unique_ptr<Board> open(const std::string &path, int ranks,
                                     int rank, int &result, std::string &why);
  ~Board();
  Board(const Board &) = delete;
  Board &operator=(const Board &) = delete;

  /// Waits for all ranks. An ncclResult_t.
  int waitForAll(double patience, std::string &why);

  int getRank() const { return rank; }
  int getSize() const { return ranks; }
  /// That names it in messages, alike in all ranks.
  const std::string &getName() const { return name; }
  bool isOfOneProcess() const;

  Slot &getSlot(int of) const { return slots[of]; }
  Slot &getMine() const { return slots[rank]; }
  Mailbox &getMailbox(int from, int to) const {
    return mailboxes[from * ranks + to];
  }

  /// Whether it came and has neither left nor died.
  bool isAlive(int other) const;

  /// Of this rank's own extent, which grows. False without room.
  bool write(Extent &extent, std::span<const std::byte> bytes);
  bool read(const Extent &extent, uint64_t begin, std::span<std::byte> bytes);

  /// The first error of any rank stays.
  void postError(int result, const std::string &text);
  /// ncclSuccess where no rank has posted one.
  int getError(std::string &text) const;

private:
  struct Header;

  Board(int file, int ranks, int rank, std::string path);
  bool map(std::string &why);

  int file, ranks, rank;
  std::string path, name;
  Header *header = nullptr;
  uint64_t mappedBytes = 0;
  Slot *slots = nullptr;
  Mailbox *mailboxes = nullptr;
};

} // namespace cleave::simulated

#endif // CLEAVE_TEST_CUDA_NCCL_BOARD_H
