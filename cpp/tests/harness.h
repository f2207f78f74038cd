#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "docofl/error.h"

// A test framework in one header and one source, so that the tests need a compiler alone.
//
// Each DOCOFL_TEST(name) { ... } is a case; the executable runs all of them, or those whose names
// contain its first argument. The first failed check ends its case.
namespace docofl {
namespace test {

using CaseFunction = void (*)();

// Registers a case before main runs.
struct Registration {
  Registration(const char* name, CaseFunction run);
};

// What a failed check throws.
class Failure : public std::exception {
 public:
  explicit Failure(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

// Throws Failure with the place, the message and the notes that are alive on this thread.
[[noreturn]] void fail(const char* file, int line, const std::string& message);

void push_note(std::string text);
void pop_note();

template <class T>
void show(std::ostream& out, const T& value) {
  if constexpr (std::is_enum_v<T>) {
    out << static_cast<long long>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    out.precision(std::numeric_limits<T>::max_digits10);
    out << value;
  } else if constexpr (std::is_integral_v<T> && sizeof(T) == 1) {
    out << static_cast<int>(value);
  } else {
    out << value;
  }
}

// Says where the checks below it stand, as in Note note("isa ", name, ", n = ", n); printed when
// one of them fails.
class Note {
 public:
  template <class... Parts>
  explicit Note(const Parts&... parts) {
    std::ostringstream text;
    (show(text, parts), ...);
    push_note(text.str());
  }
  ~Note() { pop_note(); }
  Note(const Note&) = delete;
  Note& operator=(const Note&) = delete;
};

template <class A, class B>
void check_equal(const A& found, const B& expected, const char* what, const char* file, int line) {
  if (found == expected) return;
  std::ostringstream text;
  text << what << ": found ";
  show(text, found);
  text << ", expected ";
  show(text, expected);
  fail(file, line, text.str());
}

// Compares bit patterns, so that NaN equals itself and -0 differs from 0.
template <class T>
void check_same(const T* found, const T* expected, std::size_t count, const char* what,
                const char* file, int line) {
  for (std::size_t i = 0; i < count; ++i) {
    if (std::memcmp(&found[i], &expected[i], sizeof(T)) == 0) continue;
    std::ostringstream text;
    text << what << "[" << i << "]: found ";
    show(text, found[i]);
    text << ", expected ";
    show(text, expected[i]);
    fail(file, line, text.str());
  }
}

// Runs `action` and checks that it throws an Error of the kind.
template <class Action>
void check_error(ErrorKind kind, const Action& action, const char* what, const char* file,
                 int line) {
  try {
    action();
  } catch (const Error& error) {
    if (error.kind() == kind) return;
    fail(file, line, std::string(what) + ": threw another kind of error: " + error.what());
  }
  fail(file, line, std::string(what) + ": expected an error, found none");
}

}  // namespace test
}  // namespace docofl

#define DOCOFL_TEST(name)                                              \
  void name();                                                         \
  const ::docofl::test::Registration name##_registration(#name, name); \
  void name()

#define DOCOFL_CHECK(condition)                                             \
  do {                                                                      \
    if (!(condition)) ::docofl::test::fail(__FILE__, __LINE__, #condition); \
  } while (false)

#define DOCOFL_CHECK_EQUAL(found, expected) \
  ::docofl::test::check_equal(found, expected, #found, __FILE__, __LINE__)

#define DOCOFL_CHECK_SAME(found, expected, count) \
  ::docofl::test::check_same(found, expected, count, #found, __FILE__, __LINE__)

#define DOCOFL_CHECK_ERROR(kind, expression) \
  ::docofl::test::check_error(kind, [&] { (void)(expression); }, #expression, __FILE__, __LINE__)
