//===- CurvesTest.cpp - loss curves against PyTorch's ---------------------===//
//
// The models of test/Inputs/training become training steps, which the
// interpreter runs on the data that PyTorch had; each loss must be PyTorch's
// (curves.json). A wrong gradient of any parameter shows in the second step.
//
//===----------------------------------------------------------------------===//
#include "Harness.h"

#include "train/Data.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace kerf;
using llvm::StringRef;

namespace {

struct Case {
  const char *model;
  const char *optimizer; ///< key of the curve
  int steps;
  int64_t microBatches = 1;
};

void PrintTo(const Case &c, std::ostream *stream) {
  *stream << c.model << ", " << c.optimizer << ", " << c.microBatches;
}

/// The optimizers of make.py.
std::string optimizerText(StringRef key, double rate) {
  if (key == "sgd")
    return "sgd,lr=" + std::to_string(rate);
  if (key == "momentum")
    return "sgd,lr=" + std::to_string(rate / 4) + ",momentum=0.9,wd=1e-3";
  return key == "adam" ? "adam,lr=2e-3" : "adamw,lr=2e-3,wd=0.1";
}

/// Rows [step * batch, ...) of an array, round and round.
interpret::Tensor rowsOf(const rt::DataArray &array,
                         llvm::ArrayRef<int64_t> shape, int64_t step) {
  interpret::Tensor result(shape);
  int64_t row = static_cast<int64_t>(result.data.size()) / shape[0];
  for (int64_t i = 0; i < static_cast<int64_t>(result.data.size()); ++i) {
    int64_t sample = (step * shape[0] + i / row) % array.shape[0];
    int64_t at = sample * row + i % row;
    if (array.dtype == KERF_I64) {
      int64_t value;
      std::memcpy(&value, array.data + at * 8, 8);
      result.data[i] = static_cast<double>(value);
    } else {
      float value;
      std::memcpy(&value, array.data + at * 4, 4);
      result.data[i] = value;
    }
  }
  return result;
}

class Curves : public ::testing::TestWithParam<Case> {};

TEST_P(Curves, LossesArePyTorchs) {
  const Case &c = GetParam();
  std::string folder =
      std::string(KERF_TEST_INPUTS) + "/training/" + c.model + "/";
  auto text = llvm::MemoryBuffer::getFile(folder + "curves.json");
  ASSERT_TRUE(bool(text));
  auto json = llvm::json::parse((*text)->getBuffer());
  ASSERT_TRUE(bool(json));
  const llvm::json::Object &root = *json->getAsObject();
  const llvm::json::Object &curve =
      *root.getObject("micro_batches")
           ->getObject(std::to_string(c.microBatches))
           ->getObject(c.optimizer);
  double bar = std::max(1e-4, 2 * curve.getNumber("spread").value_or(0));
  int64_t batch = *root.getInteger("batch");

  autodiff::AutodiffOptions options;
  options.loss = *autodiff::parseLoss("cross_entropy(logits,labels)");
  options.optimizer = *autodiff::parseOptimizer(
      optimizerText(c.optimizer, *root.getNumber("rate")));
  options.microBatches = c.microBatches;
  test::TrainingModel model;
  model.load(folder + "model.onnx", {{"batch", batch}}, options);
  if (::testing::Test::HasFatalFailure())
    return;
  rt::DataSet data = rt::openData(folder + "data.npz", 0);
  for (int64_t step = 0; step < c.steps; ++step) {
    auto outputs =
        model.step([&](StringRef name, llvm::ArrayRef<int64_t> shape) {
          for (const rt::DataArray &array : data.arrays)
            if (array.name == name)
              return rowsOf(array, shape, step);
          return interpret::Tensor(shape);
        });
    ASSERT_FALSE(outputs.empty());
    double expected = *(*curve.getArray("losses"))[step].getAsNumber();
    ASSERT_NEAR(outputs[0].data[0], expected, bar * std::fabs(expected))
        << "step " << step;
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char *optimizer : {"sgd", "momentum", "adam", "adamw"}) {
    all.push_back({"mlp", optimizer, 20});
    all.push_back({"gpt2", optimizer, 4});
    all.push_back({"llama", optimizer, 4});
    all.push_back({"conv-batch-norm", optimizer, 4});
    all.push_back({"conv-max-pool", optimizer, 4});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, Curves, ::testing::ValuesIn(cases()));

} // namespace
