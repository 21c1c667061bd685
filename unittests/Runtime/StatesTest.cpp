//===- StatesTest.cpp - several states of one session ---------------------===//
#include "TestPackage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace kerf::rt;
using namespace kerf::rt::test;
using json = nlohmann::json;

namespace {
// Adds x to each element of the state, and gives the first.
constexpr const char *addSource = R"(
FUNCTION(step) {
  float *s = params[0], *x = ios[0];
  for (int i = 0; i < 2; ++i) s[i] += x[0];
  *(float *)ios[1] = s[0];
  return 0;
}
)";

/// Three elements over two ranks, which begin as 1.
TestPackage package() {
  TestPackage p(addSource);
  json state = tensor("cache", {3}, {axes({"tp"})});
  state["splat"] = 1;
  state["mutable"] = true;
  setStep(p, 2, state);
  return p;
}

std::string take(kerf_status_t status) {
  std::string message = kerf_status_message(status);
  kerf_status_free(status);
  return message;
}

struct Open {
  kerf_package_t *package = nullptr;
  kerf_session_t *session = nullptr;
  std::vector<float> x = {0, 0};

  explicit Open(const std::string &path, kerf_package_t *given = nullptr)
      : package(given), owns(!given) {
    if (owns)
      EXPECT_EQ(take(kerf_package_open(path.c_str(), nullptr, &package)), "");
    EXPECT_EQ(take(kerf_session_create(package, nullptr, &session)), "");
    EXPECT_EQ(take(kerf_session_set_input(session, 0, x.data(), 8)), "");
  }
  ~Open() {
    kerf_session_destroy(session);
    if (owns)
      kerf_package_close(package);
  }
  /// A step that adds `value`; what the state is behind it.
  std::vector<float> add(float value) {
    x = {value, value};
    EXPECT_EQ(take(kerf_session_run(session)), "");
    return get();
  }
  std::vector<float> get() {
    std::vector<float> values(3);
    EXPECT_EQ(take(kerf_session_get_parameter(session, 0, values.data(), 12)),
              "");
    return values;
  }
  kerf_state_t *create() {
    kerf_state_t *state = nullptr;
    EXPECT_EQ(take(kerf_state_create(session, &state)), "");
    return state;
  }
  kerf_state_t *fork(kerf_state_t *from) {
    kerf_state_t *copy = nullptr;
    EXPECT_EQ(take(kerf_state_fork(session, from, &copy)), "");
    return copy;
  }
  void use(kerf_state_t *state) {
    EXPECT_EQ(take(kerf_session_use_state(session, state)), "");
  }

private:
  bool owns;
};

std::vector<float> all(float value) { return std::vector<float>(3, value); }

TEST(States, EachGoesItsOwnWay) {
  Open open(package().write());
  EXPECT_EQ(open.add(4), all(5)); // the session's own
  kerf_state_t *fresh = open.create();
  open.use(fresh);
  EXPECT_EQ(open.get(), all(1));
  EXPECT_EQ(open.add(10), all(11));
  kerf_state_t *copy = open.fork(fresh);
  EXPECT_EQ(open.add(1), all(12));
  open.use(copy);
  EXPECT_EQ(open.get(), all(11));
  EXPECT_EQ(open.add(2), all(13));
  open.use(fresh);
  EXPECT_EQ(open.get(), all(12));
  open.use(nullptr);
  EXPECT_EQ(open.get(), all(5));
  kerf_state_t *own = open.fork(nullptr);
  EXPECT_EQ(take(kerf_state_reset(open.session, nullptr)), "");
  EXPECT_EQ(open.get(), all(1));
  EXPECT_EQ(take(kerf_state_reset(open.session, copy)), "");
  open.use(copy);
  EXPECT_EQ(open.get(), all(1));
  open.use(own);
  EXPECT_EQ(open.get(), all(5));
  for (kerf_state_t *state : {fresh, copy, own})
    kerf_state_free(state); // `own` is in use
  EXPECT_EQ(open.add(1), all(6));
}

TEST(States, OneSessionAtATime) {
  TestPackage p = package();
  std::string path = p.write();
  Open first(path);
  kerf_state_t *state = first.create();
  first.use(state);
  first.add(1);
  {
    Open second(path, first.package);
    EXPECT_EQ(take(kerf_session_use_state(second.session, state)),
              "another session uses the state");
    first.use(nullptr);
    second.use(state);
    EXPECT_EQ(second.add(1), all(3));
  }
  first.use(state); // the session that used it is gone
  EXPECT_EQ(first.get(), all(3));
  kerf_state_free(state);
}

TEST(States, WrongRequests) {
  TestPackage p = package();
  Open open(p.write()), other(package().write());
  kerf_state_t *state = open.create(), *none = nullptr;
  const char *foreign = "the state is of another package than the session";
  EXPECT_EQ(take(kerf_session_use_state(other.session, state)), foreign);
  EXPECT_EQ(take(kerf_state_fork(other.session, state, &none)), foreign);
  EXPECT_EQ(take(kerf_state_reset(other.session, state)), foreign);
  EXPECT_EQ(none, nullptr);
  kerf_state_free(state);
  kerf_package_t *second = open.package;
  EXPECT_EQ(
      take(kerf_package_open_program(open.package, "prompt", nullptr, &second)),
      "");
  EXPECT_EQ(second, nullptr); // there is none

  TestPackage trained = package();
  json &parameter = trained.manifest["parameters"][0];
  parameter.erase("splat");
  parameter["tensor"] = "cache";
  trained.weights["cache"] = {{3}, {1, 2, 3}};
  Open weights(trained.write());
  EXPECT_EQ(take(kerf_state_create(weights.session, &none)),
            "steps write the weight \"cache\", which belongs to the session");
  EXPECT_EQ(none, nullptr);
}
} // namespace
