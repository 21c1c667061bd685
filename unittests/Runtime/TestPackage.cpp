//===- TestPackage.cpp - packages made by tests ---------------------------===//
#include "TestPackage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace kerf::rt;
using namespace kerf::rt::test;
namespace fs = std::filesystem;

TempDir::TempDir() {
  std::string pattern = fs::temp_directory_path() / "kerf-test-XXXXXX";
  root = ::mkdtemp(pattern.data());
}

TempDir::~TempDir() {
  std::error_code ignored;
  if (!root.empty())
    fs::remove_all(root, ignored);
}

void TempDir::write(const std::string &name, const std::string &content) const {
  std::ofstream(path(name), std::ios::binary) << content;
}

std::string TempDir::read(const std::string &name) const {
  std::ifstream in(path(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> TempDir::list() const {
  std::vector<std::string> names;
  for (auto &entry : fs::directory_iterator(root))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

static constexpr const char *prelude = R"(
#include <kerf/rt/program.h>
typedef const kerf_program_api *API;
typedef kerf_program_context *CTX;
#define FUNCTION(name) \
  __attribute__((visibility("default"))) int32_t name(API api, CTX ctx, \
      void *const *params, void *const *ios, void *scratch)
#define TRY(call) do { int32_t s_ = (call); if (s_) return s_; } while (0)
)";

// One compilation per source: tests vary manifests, not programs.
static std::string compileProgram(const std::string &source) {
  static std::map<std::string, std::string> cache;
  std::string &object = cache[source];
  if (!object.empty())
    return object;
  TempDir dir;
  dir.write("program.c", prelude + source);
  std::string command =
      std::string(KERF_TEST_CC) +
      " -O1 -std=c11 -ffreestanding -fno-builtin -fPIC -shared -nostdlib "
      "-fvisibility=hidden -I" KERF_TEST_INCLUDE " -o " +
      dir.path("program.so") + " " + dir.path("program.c");
  if (std::system(command.c_str()) != 0)
    ADD_FAILURE() << "cannot compile: " << command;
  object = dir.read("program.so");
  return object;
}

TestPackage::TestPackage(const std::string &source)
    : program(compileProgram(source)) {
  manifest = {{"schema", "kerf.package/1"},
              {"name", "test"},
              {"abi", 1},
              {"mesh", {{"axes", nlohmann::json::array()}}},
              {"program", "program.so"}};
}

static std::string
formatSafetensors(const std::map<std::string, Weight> &weights, bool aligned) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (auto &[name, weight] : weights) {
    size_t begin = data.size(), bytes = weight.values.size() * sizeof(float);
    header[name] = {{"dtype", "F32"},
                    {"shape", weight.shape},
                    {"data_offsets", {begin, begin + bytes}}};
    data.append(reinterpret_cast<const char *>(weight.values.data()), bytes);
    if (aligned)
      data.resize((data.size() + 63) / 64 * 64);
  }
  std::string text = header.dump();
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8 + (aligned ? 0 : 4), ' ');
  uint64_t length = text.size();
  return std::string(reinterpret_cast<const char *>(&length), 8) + text + data;
}

std::string TestPackage::write(bool aligned) {
  nlohmann::json files = nlohmann::json::array();
  auto add = [&](const std::string &name, const std::string &content) {
    temp.write(name, content);
    files.push_back({{"path", name},
                     {"bytes", content.size()},
                     {"xxh3", hashHex(content.data(), content.size())}});
  };
  add("program.so", program);
  if (!weights.empty()) {
    add("weights.safetensors", formatSafetensors(weights, aligned));
    manifest["weights"] = "weights.safetensors";
  }
  if (!manifest.contains("files"))
    manifest["files"] = files;
  temp.write("manifest.json", manifest.dump(1));
  return temp.path("");
}

nlohmann::json kerf::rt::test::axes(const std::vector<std::string> &names) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::string &name : names)
    list.push_back({{"axis", name}});
  return list;
}

nlohmann::json
kerf::rt::test::tensor(const std::string &name,
                       const std::vector<int64_t> &shape,
                       const std::vector<nlohmann::json> &sharding) {
  return {{"name", name},
          {"dtype", "f32"},
          {"global_shape", shape},
          {"sharding", sharding}};
}

void kerf::rt::test::setStep(TestPackage &p, int64_t ranks,
                             const nlohmann::json &parameter) {
  p.manifest["mesh"] = {{"axes", {{{"name", "tp"}, {"size", ranks}}}}};
  p.manifest["parameters"] = {parameter};
  p.manifest["inputs"] = {tensor("x", {ranks}, {axes({"tp"})})};
  p.manifest["outputs"] = {tensor("y", {ranks}, {axes({"tp"})})};
  p.manifest["functions"] = {{{"symbol", "step"},
                              {"scratch_bytes", 0},
                              {"num_arguments", 1},
                              {"ios",
                               {{{"dtype", "f32"}, {"shape", {1}}},
                                {{"dtype", "f32"}, {"shape", {1}}}}}}};
  p.manifest["stages"] = oneRun(128, 0, 0);
}

nlohmann::json kerf::rt::test::oneRun(int64_t arenaBytes, int64_t scratchOffset,
                                      int64_t scratchBytes) {
  return {{{"arena_bytes", arenaBytes},
           {"scratch", {{"offset", scratchOffset}, {"bytes", scratchBytes}}},
           {"slots",
            {{{"offset", 0}, {"bytes", 64}}, {{"offset", 64}, {"bytes", 64}}}},
           {"instructions",
            {{{"input", 0}, {"slot", 0}},
             {{"run", 0}, {"slots", {0, 1}}},
             {{"output", 0}, {"slot", 1}}}}}};
}

namespace {
struct Handles {
  kerf_package_t *package = nullptr;
  kerf_session_t *session = nullptr;
  ~Handles() {
    kerf_session_destroy(session);
    kerf_package_close(package);
  }
};
} // namespace

RunResult
kerf::rt::test::runTestPackage(const std::string &path,
                               const std::vector<std::vector<float>> &inputs,
                               kerf_session_options_t options, int repeat) {
  RunResult result;
  Handles handles;
  auto fine = [&](kerf_status_t status) {
    if (!status)
      return true;
    result.code = kerf_status_code(status);
    result.exitCode = kerf_status_exit_code(status);
    result.message = kerf_status_message(status);
    result.node = kerf_status_node(status);
    for (int32_t i = 0; i < kerf_status_num_notes(status); ++i)
      result.notes.push_back(kerf_status_note(status, i));
    kerf_status_free(status);
    return false;
  };
  options.struct_size = sizeof(options);
  if (options.deadline_seconds == 0)
    options.deadline_seconds = 10;
  if (options.threads == 0)
    options.threads = 1;
  if (!fine(kerf_package_open(path.c_str(), nullptr, &handles.package)) ||
      !fine(kerf_session_create(handles.package, &options, &handles.session)))
    return result;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!fine(kerf_session_set_input(handles.session, static_cast<int32_t>(i),
                                     inputs[i].data(),
                                     inputs[i].size() * sizeof(float))))
      return result;
  for (int i = 0; i < repeat; ++i)
    if (!fine(kerf_session_run(handles.session)))
      return result;
  for (int32_t i = 0; i < kerf_package_num_outputs(handles.package); ++i) {
    const void *data;
    size_t bytes;
    if (!fine(kerf_session_get_output(handles.session, i, &data, &bytes)))
      return result;
    auto *values = static_cast<const float *>(data);
    result.outputs.emplace_back(values, values + bytes / sizeof(float));
  }
  char *json = nullptr;
  if (fine(kerf_session_statistics(handles.session, &json)))
    result.statistics = json;
  kerf_string_free(json);
  json = nullptr;
  if (options.trace && fine(kerf_session_trace(handles.session, &json)))
    result.trace = json;
  kerf_string_free(json);
  return result;
}
