#pragma once

#include <cstddef>
#include <functional>

// All that the project knows of threads.
namespace docofl {

// Runs body(index, worker) for every index below `count`, in no fixed order, on up to `threads`
// threads (0: OpenMP's default). worker < num_workers(count, threads) names scratch that no other
// thread uses at the time. Bodies run in the default floating-point mode. An exception of the body
// ends the loop early and is thrown here: the one with the lowest index among those that were
// thrown. Children of fork run serially, since libgomp's threads do not survive a fork.
void parallel_for(std::size_t count, int threads,
                  const std::function<void(std::size_t index, int worker)>& body);

// How many workers parallel_for would use.
int num_workers(std::size_t count, int threads);

// While alive, parallel_for on this thread calls `check` every few dozen milliseconds from this
// thread; it may throw to end the loop (a pending Ctrl-C, say).
class InterruptCheck {
 public:
  explicit InterruptCheck(std::function<void()> check);
  ~InterruptCheck();
  InterruptCheck(const InterruptCheck&) = delete;
  InterruptCheck& operator=(const InterruptCheck&) = delete;

 private:
  std::function<void()> check_;
  const std::function<void()>* previous_;
};

bool built_with_openmp();

}  // namespace docofl
