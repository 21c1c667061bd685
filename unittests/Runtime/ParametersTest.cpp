//===- ParametersTest.cpp - parameters that steps write -------------------===//
//
// A program adds 1 to its part of a parameter; the global tensor is read, set,
// compared among ranks, and given from outside instead of the file.
//
//===----------------------------------------------------------------------===//
#include "TestPackage.h"

#include <gmock/gmock.h>

#include <numeric>

using namespace kerf::rt;
using namespace kerf::rt::test;
using nlohmann::json;
using testing::HasSubstr;

namespace {

// Adds 1 to the local part of params[0]; a rank whose x is not 0 adds 2.
constexpr const char *addSource = R"(
FUNCTION(step) {
  float *w = params[0], *x = ios[0];
  for (int i = 0; i < COUNT; ++i) w[i] += x[0] != 0 ? 2 : 1;
  *(float *)ios[1] = w[0];
  return 0;
}
)";

TestPackage package(int64_t count, int64_t ranks, const json &parameter) {
  std::string source = addSource;
  source.replace(source.find("COUNT"), 5, std::to_string(count));
  TestPackage p(source);
  setStep(p, ranks, parameter);
  return p;
}

struct Open {
  kerf_package_t *package = nullptr;
  kerf_session_t *session = nullptr;
  std::vector<float> x;

  explicit Open(const std::string &path, kerf_session_options_t options = {}) {
    options.struct_size = sizeof(options);
    options.threads = 1;
    fine(kerf_package_open(path.c_str(), nullptr, &package));
    fine(kerf_session_create(package, &options, &session));
    x.resize(kerf_package_num_ranks(package));
    fine(kerf_session_set_input(session, 0, x.data(), x.size() * 4));
  }
  ~Open() {
    kerf_session_destroy(session);
    kerf_package_close(package);
  }
  void fine(kerf_status_t status) {
    ASSERT_STREQ(kerf_status_message(status), "");
  }
  std::vector<float> get(size_t count, std::string *error = nullptr) {
    std::vector<float> values(count, -1);
    kerf_status_t status =
        kerf_session_get_parameter(session, 0, values.data(), count * 4);
    if (error)
      *error = kerf_status_message(status);
    else
      EXPECT_STREQ(kerf_status_message(status), "");
    kerf_status_free(status);
    return values;
  }
};

json mutableTensor(const std::string &name, const std::vector<int64_t> &shape,
                   const std::vector<json> &sharding) {
  json parameter = tensor(name, shape, sharding);
  parameter["mutable"] = true;
  return parameter;
}

std::vector<float> ramp(size_t count, float start) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), start);
  return values;
}

// Seven elements over three ranks: parts of three, the last is padded.
TEST(Parameters, CutAndJoined) {
  json parameter = mutableTensor("w", {7}, {axes({"tp"})});
  parameter["tensor"] = "w";
  TestPackage p = package(3, 3, parameter);
  p.weights["w"] = {{7}, ramp(7, 10)};
  Open open(p.write());
  EXPECT_EQ(open.get(7), ramp(7, 10));
  open.fine(kerf_session_run(open.session));
  open.fine(kerf_session_run(open.session));
  EXPECT_EQ(open.get(7), ramp(7, 12));
  std::vector<float> fresh = ramp(7, 100);
  open.fine(kerf_session_set_parameter(open.session, 0, fresh.data(), 28));
  open.fine(kerf_session_run(open.session));
  EXPECT_EQ(open.get(7), ramp(7, 101));
  // The file is as it was: another session starts anew.
  Open other(p.dir().path(""));
  EXPECT_EQ(other.get(7), ramp(7, 10));
}

// A view [.., 1:3] of a 2x4 tensor, columns cut over two ranks.
TEST(Parameters, View) {
  json parameter = mutableTensor("w[0,1]", {2, 2}, {axes({}), axes({"tp"})});
  parameter["tensor"] = "w";
  parameter["view"] = {{"starts", {0, 1}}, {"sizes", {2, 2}}};
  TestPackage p = package(2, 2, parameter);
  p.weights["w"] = {{2, 4}, ramp(8, 0)};
  Open open(p.write());
  EXPECT_EQ(open.get(4), (std::vector<float>{1, 2, 5, 6}));
  open.fine(kerf_session_run(open.session));
  EXPECT_EQ(open.get(4), (std::vector<float>{2, 3, 6, 7}));
  kerf_parameter_info_t info;
  open.fine(kerf_package_parameter(open.package, 0, &info));
  EXPECT_STREQ(info.tensor.name, "w[0,1]");
  EXPECT_STREQ(info.stored.name, "w");
  EXPECT_EQ(info.is_mutable, 1);
  EXPECT_EQ(info.stored.shape[1], 4);
  ASSERT_NE(info.view_starts, nullptr);
  EXPECT_EQ(info.view_starts[1], 1);
  EXPECT_EQ(info.file, nullptr);
}

// State is a splat; replicas are owned by each rank and must stay equal.
TEST(Parameters, ReplicasThatDriftAreNoticed) {
  json parameter = mutableTensor("momentum/w", {5}, {axes({})});
  parameter["splat"] = 0.5;
  Open open(package(5, 4, parameter).write());
  open.fine(kerf_session_run(open.session));
  EXPECT_EQ(open.get(5), std::vector<float>(5, 1.5));
  open.x[2] = 1;
  open.fine(kerf_session_run(open.session));
  std::string error;
  open.get(5, &error);
  EXPECT_EQ(error, "ranks 0 and 2 hold different values of parameter "
                   "\"momentum/w\"");
}

TEST(Parameters, GivenFromOutside) {
  json parameter = tensor("w", {4}, {axes({"tp"})});
  parameter["tensor"] = "w";
  parameter["mutable"] = true;
  TestPackage p = package(2, 2, parameter);
  p.weights["w"] = {{4}, ramp(4, 0)};
  static std::vector<float> other = ramp(4, 50);
  kerf_session_options_t options = {};
  options.stored_tensor = [](void *, int32_t index) -> const void * {
    return index == 0 ? other.data() : nullptr;
  };
  Open open(p.write(), options);
  EXPECT_EQ(open.get(4), other);
}

TEST(Parameters, WrongRequests) {
  json parameter = tensor("w", {4}, {axes({"tp"})});
  parameter["tensor"] = "w";
  TestPackage p = package(2, 2, parameter);
  p.weights["w"] = {{4}, ramp(4, 0)};
  Open open(p.write());
  std::string error;
  open.get(4, &error);
  EXPECT_EQ(error, "parameter \"w\" is not mutable");
  kerf_parameter_info_t info;
  kerf_status_t status = kerf_package_parameter(open.package, 1, &info);
  EXPECT_EQ(kerf_status_code(status), KERF_INVALID_ARGUMENT);
  kerf_status_free(status);
  EXPECT_EQ(kerf_package_num_parameters(open.package), 1);
  p.manifest["parameters"][0]["mutable"] = true;
  p.manifest["parameters"][0]["library_only"] = true;
  RunResult result = runTestPackage(p.write(), {});
  EXPECT_EQ(result.exitCode, 3);
  EXPECT_THAT(result.message, HasSubstr("parameters[0]"));
}
} // namespace
