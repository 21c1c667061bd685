# The GoogleTest binaries of unittests/ as lit tests; with --full they see KERF_FULL.
import os

import lit.formats

config.name = "Kerf-Unit"
config.suffixes = []
config.test_source_root = config.test_exec_root = os.path.join(config.kerf_build_dir, "unittests")
config.test_format = lit.formats.GoogleTest(".", "Tests")
config.environment["OMP_WAIT_POLICY"] = "passive"
if lit_config.params.get("full") == "1":
    config.environment["KERF_FULL"] = "1"
for name in ("HOME", "UBSAN_OPTIONS", "ASAN_OPTIONS", "TSAN_OPTIONS", "GTEST_SHUFFLE"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
