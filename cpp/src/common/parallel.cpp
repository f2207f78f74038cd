#include "common/parallel.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>

#include "common/float_mode.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace docofl {
namespace {

thread_local const std::function<void()>* interrupt_check = nullptr;

std::atomic<bool> is_forked_child{false};

#if defined(__unix__) || defined(__APPLE__)
const int kForkHandlerRegistered =
    pthread_atfork(nullptr, nullptr, [] { is_forked_child.store(true); });
#endif

// Calls a check at most once in a while: on the first thread only, which is the caller's.
class Poll {
 public:
  explicit Poll(const std::function<void()>* check) : check_(check) {}
  void operator()() {
    if (check_ == nullptr) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(50)) return;
    last_ = now;
    (*check_)();
  }

 private:
  const std::function<void()>* check_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void serial_for(std::size_t count, const std::function<void(std::size_t, int)>& body) {
  const DefaultFloatMode float_mode;
  Poll poll(interrupt_check);
  for (std::size_t i = 0; i < count; ++i) {
    body(i, 0);
    poll();
  }
}

}  // namespace

InterruptCheck::InterruptCheck(std::function<void()> check)
    : check_(std::move(check)), previous_(interrupt_check) {
  interrupt_check = &check_;
}

InterruptCheck::~InterruptCheck() { interrupt_check = previous_; }

#ifdef _OPENMP

bool built_with_openmp() { return true; }

int num_workers(std::size_t count, int threads) {
  if (is_forked_child.load(std::memory_order_relaxed) || omp_in_parallel()) return 1;
  if (threads <= 0) threads = omp_get_max_threads();
  return count < static_cast<std::size_t>(threads) ? (count > 0 ? static_cast<int>(count) : 1)
                                                   : threads;
}

void parallel_for(std::size_t count, int threads,
                  const std::function<void(std::size_t, int)>& body) {
  const int workers = num_workers(count, threads);
  if (workers == 1) return serial_for(count, body);

  std::atomic<std::size_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::exception_ptr error;
  std::size_t error_index = 0;
  const std::function<void()>* check = interrupt_check;

#pragma omp parallel num_threads(workers)
  {
    const int worker = omp_get_thread_num();
    const DefaultFloatMode float_mode;
    Poll poll(worker == 0 ? check : nullptr);
    std::size_t index = 0;
    while (!stop.load(std::memory_order_relaxed) && (index = next.fetch_add(1)) < count) {
      try {
        body(index, worker);
        poll();
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!error || index < error_index) {
          error = std::current_exception();
          error_index = index;
        }
        stop.store(true);
      }
    }
  }
  if (error) std::rethrow_exception(error);
}

#else

bool built_with_openmp() { return false; }

int num_workers(std::size_t, int) { return 1; }

void parallel_for(std::size_t count, int, const std::function<void(std::size_t, int)>& body) {
  serial_for(count, body);
}

#endif

}  // namespace docofl
