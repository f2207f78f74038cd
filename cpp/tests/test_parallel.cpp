#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "common/parallel.h"
#include "docofl/build_info.h"
#include "docofl/ecuq.h"
#include "harness.h"
#include "test_data.h"
#include "test_frames.h"

namespace docofl {
namespace {

class IndexError : public std::runtime_error {
 public:
  explicit IndexError(std::size_t index) : std::runtime_error("index"), index_(index) {}
  std::size_t index() const { return index_; }

 private:
  std::size_t index_;
};

class Interrupt : public std::exception {};

const std::vector<int>& thread_counts() {
  static const std::vector<int> all = {-1, 0, 1, 2, 3, 8};
  return all;
}

DOCOFL_TEST(every_index_runs_once) {
  for (const int threads : thread_counts()) {
    for (const std::size_t count : {0, 1, 2, 7, 1000}) {
      const test::Note note("threads ", threads, ", count ", count);
      std::vector<std::atomic<int>> runs(count);
      const int workers = num_workers(count, threads);
      DOCOFL_CHECK(workers >= 1);
      std::atomic<bool> in_range{true};
      parallel_for(count, threads, [&](std::size_t index, int worker) {
        ++runs[index];
        if (worker < 0 || worker >= workers) in_range = false;
      });
      for (const std::atomic<int>& run : runs) DOCOFL_CHECK_EQUAL(run.load(), 1);
      DOCOFL_CHECK(in_range);
    }
  }
}

DOCOFL_TEST(workers_are_no_more_than_asked_for) {
  for (const int threads : {1, 2, 3, 8}) {
    for (const std::size_t count : {0, 1, 2, 5, 1000}) {
      const int most = static_cast<int>(std::min<std::size_t>(std::max<std::size_t>(count, 1),
                                                              static_cast<std::size_t>(threads)));
      DOCOFL_CHECK_EQUAL(num_workers(count, threads), built_with_openmp() ? most : 1);
    }
  }
  DOCOFL_CHECK_EQUAL(build_info().openmp, built_with_openmp());
}

// Scratch that is named by the worker is never used by two threads at once.
DOCOFL_TEST(a_worker_is_one_thread) {
  constexpr std::size_t kCount = 2000;
  std::vector<std::atomic<bool>> busy(static_cast<std::size_t>(num_workers(kCount, 8)));
  std::atomic<bool> shared{false};
  parallel_for(kCount, 8, [&](std::size_t, int worker) {
    if (busy[static_cast<std::size_t>(worker)].exchange(true)) shared = true;
    std::this_thread::yield();
    busy[static_cast<std::size_t>(worker)] = false;
  });
  DOCOFL_CHECK(!shared);
}

// Indices are begun in order, so the lowest that throws has always been begun.
DOCOFL_TEST(the_exception_with_the_lowest_index_is_thrown) {
  for (const int threads : thread_counts()) {
    for (const std::size_t first : {0, 1, 50, 999}) {
      const test::Note note("threads ", threads, ", first ", first);
      std::size_t caught = SIZE_MAX;
      try {
        parallel_for(1000, threads, [&](std::size_t index, int) {
          if (index < first) return;
          if (index == first) std::this_thread::sleep_for(std::chrono::milliseconds(2));
          throw IndexError(index);
        });
      } catch (const IndexError& error) {
        caught = error.index();
      }
      DOCOFL_CHECK_EQUAL(caught, first);
    }
  }
}

DOCOFL_TEST(an_exception_ends_the_loop) {
  for (const int threads : {1, 2, 8}) {
    std::atomic<std::size_t> begun{0};
    try {
      parallel_for(100000, threads, [&](std::size_t index, int) {
        ++begun;
        if (index == 0) throw IndexError(index);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    } catch (const IndexError&) {
    }
    DOCOFL_CHECK(begun < 10000);
  }
}

DOCOFL_TEST(a_check_can_stop_a_loop) {
  for (const int threads : {1, 2}) {
    const test::Note note("threads ", threads);
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<std::size_t> begun{0};
    bool on_caller = true;
    bool stopped = false;
    const InterruptCheck check([&] {
      on_caller = on_caller && std::this_thread::get_id() == caller;
      throw Interrupt();
    });
    try {
      parallel_for(10000, threads, [&](std::size_t, int) {
        ++begun;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    } catch (const Interrupt&) {
      stopped = true;
    }
    DOCOFL_CHECK(stopped);
    DOCOFL_CHECK(on_caller);
    DOCOFL_CHECK(begun < 10000);
  }
}

// Returns how often the check in force is called by a loop of about 150 milliseconds.
int count_calls(int* calls) {
  *calls = 0;
  parallel_for(
      15, 1, [](std::size_t, int) { std::this_thread::sleep_for(std::chrono::milliseconds(10)); });
  return *calls;
}

DOCOFL_TEST(checks_nest) {
  int outer_calls = 0;
  int inner_calls = 0;
  const InterruptCheck outer([&] { ++outer_calls; });
  {
    const InterruptCheck inner([&] { ++inner_calls; });
    DOCOFL_CHECK(count_calls(&inner_calls) >= 1);
    DOCOFL_CHECK_EQUAL(outer_calls, 0);
  }
  DOCOFL_CHECK(count_calls(&outer_calls) >= 1);
  // Polled every few dozen milliseconds, not at every index.
  DOCOFL_CHECK(outer_calls <= 5);
}

DOCOFL_TEST(loops_nest) {
  for (const int threads : {1, 2, 8}) {
    std::vector<std::atomic<int>> runs(40 * 50);
    parallel_for(40, threads, [&](std::size_t outer, int) {
      parallel_for(50, threads, [&](std::size_t inner, int) { ++runs[outer * 50 + inner]; });
    });
    for (const std::atomic<int>& run : runs) DOCOFL_CHECK_EQUAL(run.load(), 1);
  }
  std::size_t caught = SIZE_MAX;
  try {
    parallel_for(4, 2, [&](std::size_t outer, int) {
      parallel_for(4, 2, [&](std::size_t inner, int) {
        if (outer == 1 && inner == 2) throw IndexError(10 * outer + inner);
      });
    });
  } catch (const IndexError& error) {
    caught = error.index();
  }
  DOCOFL_CHECK_EQUAL(caught, 12u);
}

// Many callers at once, each with threads of its own: serial results.
DOCOFL_TEST(concurrent_callers) {
  EcuqOptions options;
  options.bits = 2;
  options.threads = 1;
  const test::Tensor tensor(test::normal_values(140000), DType::kFloat32);
  const test::Bytes expected = test::encode(tensor, options);
  std::vector<int> good(8, 0);
  std::vector<std::thread> callers;
  for (std::size_t caller = 0; caller < good.size(); ++caller) {
    callers.emplace_back([&, caller] {
      EcuqOptions mine;
      mine.bits = 2;
      mine.threads = 1 + static_cast<int>(caller % 3);
      const test::Bytes bytes = test::encode(tensor, mine);
      const test::Tensor restored = test::decode(bytes, DType::kFloat32, mine.threads);
      good[caller] = bytes == expected && restored.view().size == 140000;
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const int is_good : good) DOCOFL_CHECK_EQUAL(is_good, 1);
}

// ThreadSanitizer does not follow a child of a process with threads.
#if (defined(__unix__) || defined(__APPLE__)) && !defined(__SANITIZE_THREAD__)
DOCOFL_TEST(a_child_of_fork_finishes) {
  std::atomic<int> runs{0};
  parallel_for(100, 4, [&](std::size_t, int) { ++runs; });
  DOCOFL_CHECK_EQUAL(runs.load(), 100);
  const pid_t child = fork();
  DOCOFL_CHECK(child >= 0);
  if (child == 0) {
    alarm(20);  // a child that hangs is killed, and noticed below
    int mine = 0;
    parallel_for(100, 4, [&](std::size_t, int) { ++mine; });
    _exit(mine == 100 && num_workers(100, 4) == 1 ? 0 : 1);
  }
  int status = 0;
  DOCOFL_CHECK_EQUAL(waitpid(child, &status, 0), child);
  DOCOFL_CHECK(WIFEXITED(status));
  DOCOFL_CHECK_EQUAL(WEXITSTATUS(status), 0);
  // The parent goes on as before.
  parallel_for(100, 4, [&](std::size_t, int) { ++runs; });
  DOCOFL_CHECK_EQUAL(runs.load(), 200);
}
#endif

}  // namespace
}  // namespace docofl
