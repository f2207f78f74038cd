#pragma once

#include <stdexcept>
#include <string>

namespace docofl {

enum class ErrorKind {
  kInvalidInput,      // a tensor or an option that cannot be encoded
  kUnsupportedFrame,  // well formed as far as read, but from a version, codec or flag unknown here
  kCorruptFrame,      // breaks a rule of docs/format.md
  kTruncatedFrame,    // ends before its own fields say so
  kLimitExceeded,     // valid, but beyond a limit that the caller set
};

// The only exception that the core throws on its own account (besides std::bad_alloc).
// The message names the place, what was found and what was expected.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace docofl
