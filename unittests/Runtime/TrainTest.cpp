//===- TrainTest.cpp - the loop of training, without the compiler ---------===//
//
// A program in C fits y = w x by gradient descent on two ranks that share the
// batch; its weight lies in the middle of a file that stands for a model. What
// is tested is everything around the program: learning rates, logs,
// checkpoints, the trained file, evaluation, and what is refused.
//
//===----------------------------------------------------------------------===//
#include "kerf/rt/train.h"
#include "TestPackage.h"
#include "train/Metrics.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <sys/resource.h>
#include <thread>

using namespace kerf::rt;
using namespace kerf::rt::test;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace {

// params[0]: w[3]; params[1]: momentum. Each rank has two samples of four.
constexpr const char *stepSource = R"(
FUNCTION(step) {
  const float *x = ios[0], *y = ios[1], *lr = ios[2];
  float *w = params[0], *m = params[1], *sums = scratch, loss = 0;
  for (int j = 0; j < 4; ++j) sums[j] = 0;
  for (int i = 0; i < 2; ++i) {
    float d = -y[i];
    for (int j = 0; j < 3; ++j) d += w[j] * x[i * 3 + j];
    for (int j = 0; j < 3; ++j) sums[j] += d * x[i * 3 + j] / 2;
    sums[3] += d * d / 4;
  }
  TRY(api->collective(ctx, 0, sums, sums));
  *(float *)ios[3] = sums[3];
  if (sums[3] != sums[3]) return 0;
  for (int j = 0; j < 3; ++j) {
    m[j] = 0.5f * m[j] + sums[j];
    w[j] -= *lr * m[j];
  }
  return 0;
}
)";
constexpr const char *inferSource = R"(
FUNCTION(step) {
  const float *x = ios[0], *w = params[0];
  for (int i = 0; i < 4; ++i) {
    float d = 0;
    for (int j = 0; j < 3; ++j) d += w[j] * x[i * 3 + j];
    ((float *)ios[1])[i] = d;
  }
  return 0;
}
)";

json io(const std::vector<int64_t> &shape) {
  return {{"dtype", "f32"}, {"shape", shape}};
}
json slots(int count) {
  json list = json::array();
  for (int i = 0; i < count; ++i)
    list.push_back({{"offset", i * 64}, {"bytes", 64}});
  return list;
}

constexpr size_t weightOffset = 20;

class Training : public testing::Test {
protected:
  Training() : training(stepSource), inference(inferSource) {
    std::vector<float> w = {0.5, -1, 2};
    std::string model = "something before....";
    model.append(reinterpret_cast<char *>(w.data()), 12);
    dir.write("model.onnx", model + "something after");
    json weight = tensor("w", {3}, {axes({})});
    weight["external"] = {
        {"file", 0}, {"offset", weightOffset}, {"shape", {3}}};
    json files = {
        {{"path", dir.path("model.onnx")}, {"bytes", model.size() + 15}}};

    json &m = training.manifest;
    m["mesh"] = {{"axes", {{{"name", "dp"}, {"size", 2}}}}};
    m["external_files"] = files;
    json state = tensor("momentum/w", {3}, {axes({})});
    state["splat"] = 0.0;
    m["parameters"] = {weight, state};
    for (json &parameter : m["parameters"])
      parameter["mutable"] = true;
    m["inputs"] = {tensor("x", {4, 3}, {axes({"dp"}), axes({})}),
                   tensor("y", {4}, {axes({"dp"})}),
                   tensor("train.learning_rate", {}, {})};
    m["outputs"] = {tensor("loss", {}, {})};
    m["collectives"] = {{{"kind", "all_reduce"},
                         {"reduction", "sum"},
                         {"dtype", "f32"},
                         {"axes", axes({"dp"})},
                         {"src_shape", {4}},
                         {"dst_shape", {4}},
                         {"group_bytes", 32},
                         {"purpose", "gradient"}}};
    m["functions"] = {{{"symbol", "step"},
                       {"scratch_bytes", 64},
                       {"num_arguments", 3},
                       {"ios", {io({2, 3}), io({2}), io({}), io({})}}}};
    m["stages"] = {{{"arena_bytes", 320},
                    {"scratch", {{"offset", 256}, {"bytes", 64}}},
                    {"slots", slots(4)},
                    {"instructions",
                     {{{"input", 0}, {"slot", 0}},
                      {{"input", 1}, {"slot", 1}},
                      {{"input", 2}, {"slot", 2}},
                      {{"run", 0}, {"slots", {0, 1, 2, 3}}},
                      {{"output", 0}, {"slot", 3}}}}}};

    json &e = inference.manifest;
    e["external_files"] = files;
    e["parameters"] = {weight};
    e["inputs"] = {tensor("x", {4, 3}, {axes({}), axes({})})};
    e["outputs"] = {tensor("out", {4}, {axes({})})};
    e["functions"] = {{{"symbol", "step"},
                       {"scratch_bytes", 0},
                       {"num_arguments", 1},
                       {"ios", {io({4, 3}), io({4})}}}};
    e["stages"] = {{{"arena_bytes", 128},
                    {"scratch", {{"offset", 0}, {"bytes", 0}}},
                    {"slots", slots(2)},
                    {"instructions",
                     {{{"input", 0}, {"slot", 0}},
                      {{"run", 0}, {"slots", {0, 1}}},
                      {{"output", 0}, {"slot", 1}}}}}};

    writeData("data", 12, 3);
    options.model = "model.onnx";
    options.package = training.write();
    options.modelFiles = {dir.path("model.onnx")};
    options.data = dir.path("data");
    options.loss.name = "mse";
    options.loss.output = "out";
    options.loss.labels = {"y"};
    options.rate.base = 0.1;
    options.steps = 10;
    options.threads = 1;
    options.seed = 5;
    options.timeoutSeconds = 10;
  }

  void writeArray(const std::string &name, const std::vector<int64_t> &shape,
                  const std::vector<float> &values) {
    std::string file;
    formatNpy(KERF_F32, shape, values.data(), values.size() * 4, file);
    dir.write(name, file);
  }

  // y = x0 + 2 x1 - x2 / 2 on a grid.
  void writeData(const std::string &folder, int64_t samples, int64_t width) {
    std::filesystem::create_directory(dir.path(folder));
    std::vector<float> x(samples * width), y(samples);
    for (int64_t i = 0; i < samples; ++i) {
      for (int64_t j = 0; j < width; ++j)
        x[i * width + j] = static_cast<float>((i * 7 + j * 5) % 9) / 9 - 0.5f;
      const float *row = &x[i * width];
      y[i] = row[0] + 2 * row[1] - row[2] / 2;
    }
    writeArray(folder + "/x.npy", {samples, width}, x);
    writeArray(folder + "/y.npy", {samples}, y);
  }

  /// Runs; text on stdout and stderr.
  int run(std::string *output = nullptr, std::string *errors = nullptr) {
    char *outText = nullptr, *errText = nullptr;
    size_t outSize = 0, errSize = 0;
    std::FILE *out = open_memstream(&outText, &outSize);
    std::FILE *err = open_memstream(&errText, &errSize);
    int code = trainPackage(options, out, err);
    std::fclose(out);
    std::fclose(err);
    if (output)
      *output = outText;
    if (errors)
      *errors = errText;
    else
      EXPECT_STREQ(errText, "");
    std::free(outText);
    std::free(errText);
    return code;
  }

  /// The log's lines, without times.
  std::vector<json> log() {
    std::vector<json> lines;
    std::string text = dir.read("train.jsonl");
    for (size_t at = 0; at < text.size();) {
      size_t end = text.find('\n', at);
      lines.push_back(json::parse(text.substr(at, end - at)));
      lines.back().erase("seconds");
      at = end + 1;
    }
    return lines;
  }

  std::vector<float> weight(const std::string &name) {
    std::vector<float> values(3);
    std::string file = dir.read(name);
    if (file.size() >= weightOffset + 12)
      std::memcpy(values.data(), file.data() + weightOffset, 12);
    return values;
  }

  TempDir dir;
  TestPackage training, inference;
  TrainOptions options;
};

TEST_F(Training, LearnsAndWrites) {
  options.steps = 200;
  options.rate.base = 0.5;
  options.log = dir.path("train.jsonl");
  options.output = dir.path("trained.onnx");
  options.safetensors = dir.path("trained.safetensors");
  options.stats = dir.path("run.json");
  std::string text;
  ASSERT_EQ(run(&text), 0);
  EXPECT_THAT(text, HasSubstr("trained 200 steps: loss"));
  EXPECT_THAT(text, HasSubstr(", 16 B sent per rank and step"));
  std::vector<json> lines = log();
  ASSERT_EQ(lines.size(), 200u);
  EXPECT_EQ(lines[0]["step"], 1);
  EXPECT_EQ(lines[199]["step"], 200);
  EXPECT_EQ(lines[7]["learning_rate"], 0.5);
  EXPECT_EQ(lines[7]["bytes_per_rank"], 16);
  EXPECT_LT(lines[199]["loss"], 1e-3 * lines[0]["loss"].get<double>());
  // The bytes around the weight are the model's, the model is as it was.
  std::string model = dir.read("model.onnx"),
              trained = dir.read("trained.onnx");
  ASSERT_EQ(model.size(), trained.size());
  EXPECT_EQ(model.substr(0, weightOffset), trained.substr(0, weightOffset));
  EXPECT_EQ(model.substr(weightOffset + 12), trained.substr(weightOffset + 12));
  EXPECT_THAT(weight("model.onnx"), ElementsAre(0.5, -1, 2));
  EXPECT_NEAR(weight("trained.onnx")[0], 1, 0.02);
  EXPECT_NEAR(weight("trained.onnx")[1], 2, 0.02);
  std::string tensors = dir.read("trained.safetensors");
  EXPECT_EQ(tensors.substr(tensors.size() - 12),
            trained.substr(weightOffset, 12));
  for (const std::string &name : dir.list())
    EXPECT_THAT(name, Not(HasSubstr("tmp")));
}

// The data are read in the order of the files, epoch after epoch.
TEST_F(Training, LearningRatesAndEpochs) {
  options.steps = 0;
  options.epochs = 2;
  options.shuffle = false;
  options.log = dir.path("train.jsonl");
  ASSERT_EQ(parseLearningRate("cosine,warmup=2,min=0.01", options.rate), "");
  ASSERT_EQ(run(), 0);
  std::vector<json> lines = log();
  ASSERT_EQ(lines.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    LearningRate rate = options.rate;
    rate.steps = 6;
    EXPECT_EQ(lines[i]["learning_rate"], rate.at(i));
  }
  EXPECT_EQ(lines[0]["learning_rate"], 0.05);
}

// Stopped anywhere and taken up again, a run ends in the same bits.
TEST_F(Training, ResumedRunsAreTheSame) {
  options.log = dir.path("train.jsonl");
  options.output = dir.path("whole.onnx");
  ASSERT_EQ(run(), 0);
  std::vector<json> whole = log();
  for (int64_t stop : {1, 4, 7}) {
    std::string folder = cat("checkpoints", stop);
    options.checkpointDir = dir.path(folder);
    options.output = "";
    options.steps = stop;
    options.resume = false;
    ASSERT_EQ(run(), 0);
    options.steps = 10;
    options.resume = true;
    options.output = dir.path("resumed.onnx");
    std::string errors;
    ASSERT_EQ(run(nullptr, &errors), 0) << errors;
    EXPECT_EQ(errors, cat("note: goes on after step ", stop, "\n"));
    EXPECT_EQ(log(), whole);
    EXPECT_EQ(dir.read("whole.onnx"), dir.read("resumed.onnx"));
  }
}

// A signal ends the step, writes a checkpoint and nothing else.
TEST_F(Training, StopsAfterTheStep) {
  static volatile std::sig_atomic_t stop;
  stop = SIGINT;
  options.stop = &stop;
  options.output = dir.path("trained.onnx");
  options.checkpointDir = dir.path("checkpoints");
  std::string errors;
  EXPECT_EQ(run(nullptr, &errors), 128 + SIGINT);
  EXPECT_THAT(errors, HasSubstr("stopped after step 1, a checkpoint is "
                                "written"));
  EXPECT_TRUE(std::filesystem::exists(
      dir.path("checkpoints/checkpoint-000000001.safetensors")));
  EXPECT_FALSE(std::filesystem::exists(dir.path("trained.onnx")));
}

TEST_F(Training, DamagedCheckpoints) {
  options.checkpointDir = dir.path("checkpoints");
  options.checkpointEvery = 2;
  ASSERT_EQ(run(), 0);
  auto name = [](int step) {
    return cat("checkpoints/checkpoint-00000000", step, ".safetensors");
  };
  // The newest three are kept.
  EXPECT_FALSE(std::filesystem::exists(dir.path(name(4))));
  EXPECT_TRUE(std::filesystem::exists(dir.path(name(6))));
  std::string ten = "checkpoints/checkpoint-000000010.safetensors";
  ASSERT_TRUE(std::filesystem::exists(dir.path(ten)));
  options.resume = true;
  options.steps = 12;
  options.checkpointEvery = 0;
  options.output = dir.path("expected.onnx");
  std::string errors;
  ASSERT_EQ(run(nullptr, &errors), 0);
  std::filesystem::remove(
      dir.path("checkpoints/checkpoint-000000012.safetensors"));
  // Any byte of the newest: it is refused by name, and the one before loads.
  std::string good = dir.read(ten);
  options.output = dir.path("trained.onnx");
  for (size_t at = 0; at < good.size(); at += 13) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    dir.write(ten, damaged);
    ASSERT_EQ(run(nullptr, &errors), 0) << at << errors;
    EXPECT_THAT(errors, AllOf(HasSubstr("warning: " + dir.path(ten)),
                              HasSubstr("goes on after step 8")))
        << at;
    EXPECT_EQ(dir.read("trained.onnx"), dir.read("expected.onnx"));
    std::filesystem::remove(
        dir.path("checkpoints/checkpoint-000000012.safetensors"));
    dir.write(name(6), "gone"); // the third newest was removed by step 12
  }
  dir.write(ten, good.substr(0, good.size() / 2));
  dir.write(name(8), "");
  ASSERT_EQ(run(nullptr, &errors), 2);
  EXPECT_THAT(errors,
              AllOf(HasSubstr("no checkpoint in it can be loaded"),
                    HasSubstr(dir.path(ten)), HasSubstr(dir.path(name(8)))));
}

// A disk that is full while the second checkpoint is written: the run ends, and
// the first one still loads. What a killed process left beside does no harm.
TEST_F(Training, FullDisk) {
  options.checkpointDir = dir.path("checkpoints");
  options.steps = 2;
  ASSERT_EQ(run(), 0);
  auto before = std::filesystem::file_size(
      dir.path("checkpoints/checkpoint-000000002.safetensors"));
  dir.write("checkpoints/checkpoint-000000003.safetensors.tmp1", "half");
  options.resume = true;
  options.steps = 4;
  std::string errors;
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  rlimit limit = old;
  limit.rlim_cur = before - 1;
  setrlimit(RLIMIT_FSIZE, &limit);
  int code = run(nullptr, &errors);
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(code, 5);
  EXPECT_THAT(errors, HasSubstr("checkpoint-000000004.safetensors: cannot "
                                "write: File too large"));
  EXPECT_FALSE(std::filesystem::exists(
      dir.path("checkpoints/checkpoint-000000004.safetensors")));
  EXPECT_EQ(run(nullptr, &errors), 0);
  EXPECT_THAT(errors, HasSubstr("goes on after step 2"));
}

TEST_F(Training, CheckpointsOfOtherRuns) {
  options.checkpointDir = dir.path("checkpoints");
  ASSERT_EQ(run(), 0);
  options.resume = true;
  options.seed = 6;
  std::string errors;
  EXPECT_EQ(run(nullptr, &errors), 2);
  EXPECT_THAT(errors,
              HasSubstr("is of another run: seed is 5, this run has 6"));
  options.seed = 5;
  training.manifest["parameters"][1]["name"] = "adam.m/w";
  training.write();
  EXPECT_EQ(run(nullptr, &errors), 2);
  EXPECT_THAT(errors, HasSubstr("it has no \"adam.m/w\""));
}

TEST_F(Training, LossThatIsNoNumber) {
  std::vector<float> y(12, 1);
  y[6] = NAN;
  writeArray("data/y.npy", {12}, y);
  options.shuffle = false;
  options.output = dir.path("trained.onnx");
  options.log = dir.path("train.jsonl");
  std::string errors, text;
  EXPECT_EQ(run(nullptr, &errors), 5);
  EXPECT_THAT(errors, HasSubstr("error: model.onnx: step 2: the loss is nan"));
  EXPECT_FALSE(std::filesystem::exists(dir.path("trained.onnx")));
  EXPECT_EQ(log().size(), 1u);
  options.skipNan = true;
  options.steps = 6;
  EXPECT_EQ(run(&text, nullptr), 0);
  EXPECT_THAT(text, HasSubstr("2 steps skipped"));
  EXPECT_EQ(log()[1]["skipped"], true);
  EXPECT_TRUE(log()[1]["loss"].is_null());
  for (float value : weight("trained.onnx"))
    EXPECT_TRUE(std::isfinite(value));
}

TEST_F(Training, Evaluation) {
  options.evalPackage = inference.write();
  options.evalData = dir.path("eval");
  options.evalEvery = 4;
  options.log = dir.path("train.jsonl");
  options.output = dir.path("trained.onnx");
  writeData("eval", 6, 3); // a batch and a half
  std::string text;
  ASSERT_EQ(run(&text), 0);
  EXPECT_THAT(text, HasSubstr("step 10: evaluation loss"));
  std::vector<json> evaluations;
  for (const json &line : log())
    if (line.contains("eval_loss"))
      evaluations.push_back(line);
  ASSERT_EQ(evaluations.size(), 3u);
  EXPECT_EQ(evaluations[0]["step"], 4);
  EXPECT_EQ(evaluations[2]["step"], 10);
  // By hand, with the trained weight.
  std::vector<float> w = weight("trained.onnx");
  double sum = 0;
  for (int i = 0; i < 6; ++i) {
    double x[3], y;
    for (int j = 0; j < 3; ++j)
      x[j] = static_cast<float>((i * 7 + j * 5) % 9) / 9 - 0.5f;
    y = x[0] + 2 * x[1] - x[2] / 2;
    double d = w[0] * x[0] + w[1] * x[1] + w[2] * x[2] - y;
    sum += d * d;
  }
  EXPECT_NEAR(evaluations[2]["eval_loss"].get<double>(), sum / 6, 1e-6);
  EXPECT_EQ(evaluations[2]["eval_samples"], 6);
}

TEST_F(Training, WrongWishesWriteNothing) {
  options.output = dir.path("trained.onnx");
  options.log = dir.path("train.jsonl");
  options.checkpointDir = dir.path("checkpoints");
  auto before = dir.list();
  auto refused = [&](const std::string &what) {
    std::string errors;
    EXPECT_EQ(run(nullptr, &errors), 2) << what;
    EXPECT_THAT(errors, HasSubstr("error: "));
    EXPECT_THAT(errors, HasSubstr(what));
    EXPECT_EQ(dir.list(), before);
  };
  writeData("short", 3, 3);
  writeData("wide", 12, 5);
  std::filesystem::create_directory(dir.path("none"));
  before = dir.list();
  std::string data = options.data;
  options.data = dir.path("short");
  refused("has 3 samples, a batch needs 4");
  options.data = dir.path("wide");
  refused("array \"x\" has shape 12x5, input \"x\" expects Nx3");
  options.data = dir.path("none");
  refused("has no .npy files");
  options.data = data;
  options.output = dir.path("nowhere/trained.onnx");
  refused("nowhere/trained.onnx: cannot write");
  options.output = dir.path("data");
  refused("is a folder");
  options.output = "";
  options.checkpointDir = "";
  options.resume = true;
  refused("option resume needs option checkpoint-dir");
  options.resume = false;
  options.rate.kind = LearningRate::Linear;
  options.rate.warmup = 10;
  refused("warmup is 10, expected less than the 10 steps");
}

// External data of the model keeps its names beside the trained file.
TEST_F(Training, ExternalData) {
  std::filesystem::create_directory(dir.path("model"));
  std::filesystem::create_directory(dir.path("trained"));
  dir.write("model/graph.onnx", "the graph");
  dir.write("model/weights.bin", dir.read("model.onnx"));
  training.manifest["external_files"][0]["path"] =
      dir.path("model/weights.bin");
  training.write();
  options.modelFiles = {dir.path("model/graph.onnx"),
                        dir.path("model/weights.bin")};
  options.output = dir.path("trained/graph.onnx");
  ASSERT_EQ(run(), 0);
  EXPECT_EQ(dir.read("trained/graph.onnx"), "the graph");
  EXPECT_NE(weight("trained/weights.bin"), weight("model/weights.bin"));
  EXPECT_EQ(dir.read("trained/weights.bin").size(),
            dir.read("model/weights.bin").size());
  options.output = dir.path("model/other.onnx");
  std::string errors;
  EXPECT_EQ(run(nullptr, &errors), 2);
  EXPECT_THAT(errors, HasSubstr("its external data would replace"));
}

// Against torch.nn.functional on the same numbers.
TEST(MetricsTest, LossesAndAccuracy) {
  std::vector<float> x = {1, 2, 0.5, -1, 0, 3};
  std::vector<int64_t> labels = {1, -100};
  MetricTensor output{KERF_F32, {2, 3}, reinterpret_cast<char *>(x.data())};
  MetricTensor ints{KERF_I64, {2}, reinterpret_cast<char *>(labels.data())};
  TrainLoss loss;
  Metrics m;
  addMetrics(loss, output, &ints, 2, m);
  EXPECT_EQ(m.count, 1);
  EXPECT_NEAR(m.loss(), 0.46436879, 1e-7);
  EXPECT_EQ(m.accuracy(), 1);
  labels = {0, 2};
  m = Metrics();
  addMetrics(loss, output, &ints, 2, m);
  EXPECT_NEAR(m.loss(), 0.7651263439, 1e-7);
  EXPECT_EQ(m.accuracy(), 0.5);
  // The same scores with the classes in dimension 1: two labels of a sample.
  std::vector<float> columns = {1, -1, 2, 0, 0.5, 3};
  MetricTensor image{
      KERF_F32, {1, 3, 2}, reinterpret_cast<char *>(columns.data())};
  MetricTensor pixels{KERF_I64, {1, 2}, ints.data};
  loss.classDim = 1;
  m = Metrics();
  addMetrics(loss, image, &pixels, 1, m);
  EXPECT_NEAR(m.loss(), 0.7651263439, 1e-7);
  EXPECT_EQ(m.accuracy(), 0.5);
  loss.classDim = -1;
  EXPECT_THROW(addMetrics(loss, image, &pixels, 1, m), Error);
  std::vector<float> y = {0, 1, 1, 0, 1, 1};
  MetricTensor floats{KERF_F32, {2, 3}, reinterpret_cast<char *>(y.data())};
  loss.name = "bce_with_logits";
  m = Metrics();
  addMetrics(loss, output, &floats, 2, m);
  EXPECT_NEAR(m.loss(), 0.4948771504, 1e-7);
  EXPECT_NEAR(m.accuracy(), 4.0 / 6, 1e-12);
  loss.name = "l1";
  m = Metrics();
  addMetrics(loss, output, &floats, 1, m); // of the first sample alone
  EXPECT_NEAR(m.loss(), 2.5 / 3, 1e-7);
  EXPECT_THROW(addMetrics(loss, output, &ints, 2, m), Error);
  loss.name = "huber";
  loss.options = {{"delta", 0.75}};
  m = Metrics();
  addMetrics(loss, output, &floats, 1, m);
  double expected = 0;
  for (int i = 0; i < 3; ++i) {
    double size = std::abs(x[i] - y[i]);
    expected += size < 0.75 ? size * size / 2 : 0.75 * size - 0.28125;
  }
  EXPECT_NEAR(m.loss(), expected / 3, 1e-7);
  loss.name = "hinge";
  EXPECT_THROW(addMetrics(loss, output, &floats, 1, m), Error);
}
} // namespace
