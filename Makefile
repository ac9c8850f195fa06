# Everyday commands for a clone of squall; `make` lists them.
#
# Deliberately thin: cargo and scripts/ do the work. The scripts install what a fresh Debian or Ubuntu machine with
# git, make, a C compiler and Rust lacks. CI runs `lint` and `test` through .ci/run.

# Where cargo builds; cargo itself reads this variable too.
CARGO_TARGET_DIR ?= target
# Where `make lint` installs its tools; nothing is installed elsewhere.
SQUALL_TOOLS ?= $(CARGO_TARGET_DIR)/tools
# Extra arguments for every cargo call; .ci/run sets --locked.
CARGO_FLAGS ?=

# What builds BoringSSL: Ninja, where it is installed, takes 8 % less processor time than make.
CMAKE_GENERATOR ?= $(if $(shell command -v ninja 2>/dev/null),Ninja,Unix Makefiles)

export CARGO_TARGET_DIR CARGO_FLAGS SQUALL_TOOLS CMAKE_GENERATOR

.PHONY: help prerequisites peers demo test sanitize release bench lint

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

prerequisites: ## check what the build needs, install what is missing
	@scripts/prerequisites

peers: ## check what else the tests need, install what is missing
	@scripts/peers

demo: prerequisites ## build squall quickly and answer a real question: about 5 minutes on two processors
	cargo build --profile demo -p squall $(CARGO_FLAGS)
	# Exit code 3: other work disturbed all trials of a cell; the report says which.
	"$(CARGO_TARGET_DIR)/demo/squall" run twilio --profile quick --stations embedded || [ $$? -eq 3 ]

# Most end-to-end tests wait for a network or a clock, so four of them run at a time for each processor.
test: export RUST_TEST_THREADS ?= $(shell echo $$(($$(nproc) * 4)))
test: prerequisites peers ## run every test
	@scripts/test

sanitize: prerequisites ## the tests of the crates over C under AddressSanitizer; needs a nightly toolchain
	@scripts/sanitize

release: prerequisites ## build squall with profile-guided optimisation: as root, takes two builds
	@scripts/release

bench: prerequisites ## measure link, analysis, view and engines, next to other programs: as root, on a quiet machine
	cargo bench -p squall-link --bench model $(CARGO_FLAGS)
	cargo bench -p squall-linux --bench link $(CARGO_FLAGS)
	cargo bench -p squall --bench fast_link $(CARGO_FLAGS)
	cargo bench -p squall --bench analysis $(CARGO_FLAGS)
	cargo bench -p squall --bench view $(CARGO_FLAGS)
	-cargo build --release --manifest-path benches/h3-client/Cargo.toml --target-dir "$(CARGO_TARGET_DIR)/h3-client" $(CARGO_FLAGS)
	@scripts/release profile
	SQUALL_H3_CLIENT="$(abspath $(CARGO_TARGET_DIR)/h3-client/release/h3-client)" \
	RUSTFLAGS="-Cprofile-use=$(abspath $(CARGO_TARGET_DIR)/squall.profdata)" \
		cargo bench -p squall --bench engines $(CARGO_FLAGS)

lint: prerequisites ## formatting, clippy, docs, dependencies, spelling, turns of phrase
	@scripts/tools
	cargo fmt --all -- --check
	# Clippy links nothing, so the fuzz targets need no libFuzzer, which takes half a minute to build.
	CUSTOM_LIBFUZZER_PATH=/dev/null cargo clippy --workspace --all-targets $(CARGO_FLAGS) -- -D warnings
	# With --examples, dependencies have the features with which clippy checked them, so cargo does not check them again. With
	# clippy's driver and arguments, it reuses clippy's results for squall too. If either changes, this only takes longer.
	RUSTDOCFLAGS="-D warnings" RUSTC_WORKSPACE_WRAPPER="$$(rustc --print sysroot)/bin/clippy-driver" \
		CLIPPY_ARGS="-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__" \
		cargo doc --no-deps --lib --bins --examples $(CARGO_FLAGS)
	"$(SQUALL_TOOLS)/bin/cargo-deny" check bans licenses sources
	@scripts/advisories
	"$(SQUALL_TOOLS)/bin/typos"
	@scripts/words
