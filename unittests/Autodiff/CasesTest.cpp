//===- CasesTest.cpp - losses and optimizers against PyTorch's ------------===//
//
// test/Inputs/autodiff/cases.json: small models under every loss and optimizer.
// After each step the loss and the gradients' norm, after the last the
// parameters must be PyTorch's.
//
//===----------------------------------------------------------------------===//
#include "Harness.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace kerf;
using llvm::StringRef;

namespace {

std::string folder() { return std::string(KERF_TEST_INPUTS) + "/autodiff/"; }

/// The file is read once; parameters of the suite are indices into it.
const llvm::json::Array &allCases() {
  static const llvm::json::Value cases = [] {
    auto text = llvm::MemoryBuffer::getFile(folder() + "cases.json");
    auto json = llvm::json::parse((*text)->getBuffer());
    return json ? std::move(*json) : llvm::json::Value(nullptr);
  }();
  return *cases.getAsArray();
}

std::vector<double> numbers(const llvm::json::Array &array) {
  std::vector<double> result;
  for (const llvm::json::Value &value : array)
    result.push_back(*value.getAsNumber());
  return result;
}

std::vector<std::string> texts(const llvm::json::Array *array) {
  std::vector<std::string> result;
  if (array)
    for (const llvm::json::Value &value : *array)
      result.push_back(value.getAsString()->str());
  return result;
}

class Cases : public ::testing::TestWithParam<size_t> {
protected:
  const llvm::json::Object &c = *allCases()[GetParam()].getAsObject();
};

TEST_P(Cases, StepsArePyTorchs) {
  SCOPED_TRACE(c.getString("name")->str());
  autodiff::AutodiffOptions options;
  options.loss = *autodiff::parseLoss(*c.getString("loss"));
  options.optimizer = *autodiff::parseOptimizer(*c.getString("optimizer"));
  const llvm::json::Object &more = *c.getObject("options");
  options.trainable = texts(more.getArray("trainable"));
  options.frozen = texts(more.getArray("frozen"));
  if (auto norm = more.getNumber("clip_norm"))
    options.clipNorm = *norm;

  test::TrainingModel model;
  model.load(folder() + c.getString("model")->str() + ".onnx", {}, options);
  if (::testing::Test::HasFatalFailure())
    return;
  std::vector<double> losses = numbers(*c.getArray("losses"));
  std::vector<double> norms = numbers(*c.getArray("norms"));
  for (size_t step = 0; step < losses.size(); ++step) {
    auto outputs = model.step([&](StringRef name, llvm::ArrayRef<int64_t>) {
      const llvm::json::Object *input = c.getObject("inputs")->getObject(name);
      interpret::Tensor tensor;
      for (const llvm::json::Value &size : *input->getArray("shape"))
        tensor.shape.push_back(*size.getAsInteger());
      tensor.data = numbers(*input->getArray("data"));
      return tensor;
    });
    ASSERT_EQ(outputs.size(), norms.empty() ? 1u : 2u);
    EXPECT_NEAR(outputs[0].data[0], losses[step],
                2e-6 * (1 + std::fabs(losses[step])));
    if (!norms.empty())
      EXPECT_NEAR(outputs[1].data[0], norms[step], 2e-6 * (1 + norms[step]));
  }
  for (const auto &[name, value] : *c.getObject("parameters")) {
    std::vector<double> expected = numbers(*value.getAsArray());
    interpret::Tensor found = model.parameter(StringRef(name));
    ASSERT_EQ(found.data.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(found.data[i], expected[i],
                  4e-6 * (1 + std::fabs(expected[i])))
          << StringRef(name).str() << "[" << i << "]";
  }
}

INSTANTIATE_TEST_SUITE_P(Autodiff, Cases,
                         ::testing::Range<size_t>(0, allCases().size()));

} // namespace
