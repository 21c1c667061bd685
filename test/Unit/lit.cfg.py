# The GoogleTest binaries of unittests/ as lit tests.
import os

import lit.formats

config.name = "Kerf-Unit"
config.suffixes = []
config.test_source_root = config.test_exec_root = os.path.join(config.kerf_build_dir, "unittests")
config.test_format = lit.formats.GoogleTest(".", "Tests")
config.environment["OMP_WAIT_POLICY"] = "passive"
for name in ("HOME", "UBSAN_OPTIONS", "ASAN_OPTIONS", "TSAN_OPTIONS", "GTEST_SHUFFLE"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
