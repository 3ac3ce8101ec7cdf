//===- Status.h - How the runtime reports failure -------------------------===//
//
// No exception crosses a function of the runtime: what can fail returns a
// Status, and its other results through reference parameters, which are left
// as they were on failure.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_BASE_STATUS_H
#define CLEAVE_RUNTIME_BASE_STATUS_H

#include <cstdint>
#include <string>
#include <utility>

namespace cleave::runtime {

enum class StatusCode : uint8_t {
  Ok,
  Failed,  ///< the cause is in the message
  Aborted, ///< another rank failed; its message, not this one, is the cause
};

/// Success, or a code and one line for a person: lower case, no period, names
/// the file, key or tensor, the value, and what is legal.
class [[nodiscard]] Status {
public:
  Status() = default;
  static Status error(std::string message) {
    return Status(StatusCode::Failed, std::move(message));
  }
  static Status aborted(std::string message) {
    return Status(StatusCode::Aborted, std::move(message));
  }
  /// A failure here that the end of another rank has made: what that rank says
  /// of its end, or the watchdog, tells more, and goes before this if it comes.
  static Status consequence(std::string message) {
    Status status = error(std::move(message));
    status.followsAnEnd = true;
    return status;
  }
  /// The same failure, with `where` it was before its message.
  Status at(const std::string &where) const {
    Status status = *this;
    status.text = where + ": " + text;
    return status;
  }

  bool ok() const { return code == StatusCode::Ok; }
  StatusCode getCode() const { return code; }
  bool isConsequence() const { return followsAnEnd; }
  const std::string &message() const { return text; }

private:
  Status(StatusCode code, std::string text)
      : code(code), text(std::move(text)) {}

  StatusCode code = StatusCode::Ok;
  bool followsAnEnd = false;
  std::string text;
};

} // namespace cleave::runtime

/// Returns from the enclosing function where `expression` is a failed Status.
#define CLEAVE_RETURN_IF_ERROR(expression)                                     \
  do {                                                                         \
    if (::cleave::runtime::Status status_ = (expression); !status_.ok())       \
      return status_;                                                          \
  } while (false)

#endif // CLEAVE_RUNTIME_BASE_STATUS_H
