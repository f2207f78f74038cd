#include "harness.h"

#include <cstdio>

namespace docofl {
namespace test {
namespace {

struct Case {
  const char* name;
  CaseFunction run;
};

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

thread_local std::vector<std::string> notes;

bool passes(const Case& test_case) {
  try {
    test_case.run();
    std::printf("ok    %s\n", test_case.name);
    return true;
  } catch (const std::exception& error) {
    std::printf("FAIL  %s\n  %s\n", test_case.name, error.what());
  } catch (...) {
    std::printf("FAIL  %s\n  threw something that is no std::exception\n", test_case.name);
  }
  return false;
}

}  // namespace

Registration::Registration(const char* name, CaseFunction run) { cases().push_back({name, run}); }

void push_note(std::string text) { notes.push_back(std::move(text)); }

void pop_note() { notes.pop_back(); }

void fail(const char* file, int line, const std::string& message) {
  std::string text = std::string(file) + ":" + std::to_string(line) + ": " + message;
  for (const std::string& note : notes) text += "\n    with " + note;
  throw Failure(text);
}

}  // namespace test
}  // namespace docofl

int main(int argc, char** argv) {
  const std::string wanted = argc > 1 ? argv[1] : "";
  std::size_t run = 0;
  std::size_t failed = 0;
  for (const docofl::test::Case& test_case : docofl::test::cases()) {
    if (std::string(test_case.name).find(wanted) == std::string::npos) continue;
    ++run;
    if (!docofl::test::passes(test_case)) ++failed;
    std::fflush(stdout);
  }
  std::printf("%zu cases, %zu failed\n", run, failed);
  return run > 0 && failed == 0 ? 0 : 1;
}
