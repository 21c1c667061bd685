//===- TestPackage.h - packages made by tests -------------------*- C++ -*-===//
//
// A temporary folder, a weights file from arrays, and program.so compiled from
// C by the compiler that builds the tests: the runtime is tested without ours.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_RUNTIME_TESTPACKAGE_H
#define KERF_UNITTESTS_RUNTIME_TESTPACKAGE_H

#include "kerf/rt/run.h"
#include "package/Safetensors.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

namespace kerf::rt::test {

class TempDir {
public:
  TempDir();
  ~TempDir();
  TempDir(TempDir &&other) : root(std::move(other.root)) { other.root.clear(); }
  std::string path(const std::string &name) const { return root + "/" + name; }
  void write(const std::string &name, const std::string &content) const;
  std::string read(const std::string &name) const;
  std::vector<std::string> list() const; ///< sorted names

private:
  std::string root;
};

/// A float tensor for the weights file.
struct Weight {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

class TestPackage {
public:
  /// `source` is the body of program.c after the includes; see prelude in the
  /// .cpp.
  explicit TestPackage(const std::string &source);

  nlohmann::json
      manifest; ///< schema, abi, mesh of one rank; tests fill the rest
  std::map<std::string, Weight> weights;

  /// Writes everything, with hashes unless the test gave "files"; the path.
  std::string write(bool aligned = true);
  const TempDir &dir() const { return temp; }

private:
  TempDir temp;
  std::string program;
};

/// {"axis": name} in a list, one per name.
nlohmann::json axes(const std::vector<std::string> &names);
/// A global tensor or parameter of f32.
nlohmann::json tensor(const std::string &name,
                      const std::vector<int64_t> &shape,
                      const std::vector<nlohmann::json> &sharding);

/// The list of one stage that reads input 0 into slot 0, runs function 0 and
/// writes output 0 from slot 1; the slots are the arena's first 128 bytes.
nlohmann::json oneRun(int64_t arenaBytes, int64_t scratchOffset,
                      int64_t scratchBytes);

/// The manifest of a step on `ranks` ranks of axis "tp": of one number of "x"
/// on each it makes one of "y", and has one parameter.
void setStep(TestPackage &package, int64_t ranks,
             const nlohmann::json &parameter);

/// Opens, runs once and gives the f32 outputs; empty and `error` set on
/// failure.
struct RunResult {
  std::vector<std::vector<float>> outputs;
  kerf_code_t code = KERF_OK;
  int exitCode = 0;
  std::string message, node, statistics, trace;
  std::vector<std::string> notes;
};
RunResult runTestPackage(const std::string &path,
                         const std::vector<std::vector<float>> &inputs,
                         kerf_session_options_t options = {}, int repeat = 1);

} // namespace kerf::rt::test

#endif // KERF_UNITTESTS_RUNTIME_TESTPACKAGE_H
