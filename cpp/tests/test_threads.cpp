#include <string>
#include <thread>
#include <vector>

#include "docofl/ecuq.h"
#include "docofl/eden.h"
#include "docofl/error.h"
#include "docofl/frame.h"
#include "harness.h"
#include "test_data.h"
#include "test_frames.h"

// Row 24: callers on many threads at once, each with threads of its own, get what one caller gets.
// Under ThreadSanitizer, also without a race.
namespace docofl {
namespace {

constexpr std::size_t kCallers = 8;
constexpr std::size_t kRounds = 3;

struct Job {
  test::Tensor tensor;
  test::Bytes frame;
  std::vector<float> values;
};

test::Bytes encode_job(std::size_t kind, const test::Tensor& tensor, int threads) {
  if (kind % 4 == 0 || kind % 4 == 1) {
    EcuqOptions options;
    options.bits = 2;
    options.quality = kind % 4 == 0 ? Quality::kFast : Quality::kBest;
    options.threads = threads;
    return test::encode(tensor, options);
  }
  EdenOptions options;
  options.bits = 2;
  options.seed = kind;
  options.entropy_coded = kind % 4 == 3;
  options.threads = threads;
  return test::encode(tensor, options);
}

std::vector<Job> make_jobs() {
  std::vector<Job> jobs;
  for (std::size_t kind = 0; kind < kCallers; ++kind) {
    const std::size_t size = kind < 4 ? 140000 + kind : 3000 + kind;
    Job job{test::Tensor(test::normal_values(size, kind), DType::kFloat32), {}, {}};
    job.frame = encode_job(kind, job.tensor, 1);
    job.values = test::decode(job.frame, DType::kFloat32, 1).values();
    jobs.push_back(std::move(job));
  }
  return jobs;
}

template <class Action>
void run_callers(const Action& action) {
  std::vector<std::thread> callers;
  std::vector<std::string> failures(kCallers);
  for (std::size_t caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      try {
        action(caller);
      } catch (const std::exception& error) {
        failures[caller] = error.what();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const std::string& failure : failures) DOCOFL_CHECK_EQUAL(failure, std::string());
}

DOCOFL_TEST(callers_get_serial_results) {
  const std::vector<Job> jobs = make_jobs();
  run_callers([&](std::size_t caller) {
    for (std::size_t round = 0; round < kRounds; ++round) {
      const std::size_t kind = (caller + round) % kCallers;
      const Job& job = jobs[kind];
      const test::Note note("caller ", caller, ", job ", kind);
      const int threads = 1 + static_cast<int>(round);
      const test::Bytes frame = encode_job(kind, job.tensor, threads);
      DOCOFL_CHECK(frame == job.frame);
      const std::vector<float> values = test::decode(frame, DType::kFloat32, threads).values();
      DOCOFL_CHECK_SAME(values.data(), job.values.data(), values.size());
    }
  });
}

// One frame's bytes read by all callers.
DOCOFL_TEST(callers_share_frames) {
  const std::vector<Job> jobs = make_jobs();
  run_callers([&](std::size_t caller) {
    for (const Job& job : jobs) {
      const test::Note note("caller ", caller);
      const std::vector<float> values = test::decode(job.frame, DType::kFloat32, 2).values();
      DOCOFL_CHECK_SAME(values.data(), job.values.data(), values.size());
    }
  });
}

// Errors in one caller do not reach another.
DOCOFL_TEST(callers_with_damaged_frames) {
  const std::vector<Job> jobs = make_jobs();
  run_callers([&](std::size_t caller) {
    const Job& job = jobs[caller];
    for (std::size_t round = 0; round < kRounds; ++round) {
      test::Bytes damaged = job.frame;
      damaged[damaged.size() / 2] ^= 0x10;
      DOCOFL_CHECK_ERROR(ErrorKind::kCorruptFrame, test::decode(damaged, DType::kFloat32, 2));
      const std::vector<float> values = test::decode(job.frame, DType::kFloat32, 2).values();
      DOCOFL_CHECK_SAME(values.data(), job.values.data(), values.size());
    }
  });
}

}  // namespace
}  // namespace docofl
