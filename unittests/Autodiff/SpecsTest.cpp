//===- SpecsTest.cpp - what --loss and --optimizer say --------------------===//
#include "kerf/Autodiff/Autodiff.h"

#include <gtest/gtest.h>

using namespace kerf::autodiff;

namespace {

std::string lossError(llvm::StringRef text) {
  auto spec = parseLoss(text);
  return spec ? "" : llvm::toString(spec.takeError());
}
std::string optimizerError(llvm::StringRef text) {
  auto spec = parseOptimizer(text);
  return spec ? "" : llvm::toString(spec.takeError());
}

TEST(Specs, LossWithOptions) {
  auto spec = parseLoss("cross_entropy(logits, y,ignore_index=-1,"
                        "label_smoothing=0.1,reduction=sum)");
  ASSERT_TRUE(bool(spec));
  EXPECT_EQ(spec->name, "cross_entropy");
  EXPECT_EQ(spec->prediction, "logits");
  EXPECT_EQ(spec->target, "y");
  EXPECT_EQ(spec->ignoreIndex, -1);
  EXPECT_EQ(spec->option("label_smoothing"), 0.1);
  EXPECT_FALSE(spec->mean);
  EXPECT_EQ(spec->classDim, -1);
  spec = parseLoss("nll(p,y,dim=1)");
  ASSERT_TRUE(bool(spec));
  EXPECT_EQ(spec->classDim, 1);
  EXPECT_EQ(lossError("nll(p,y,dim=0)"),
            "option loss: dim is '0', expected the dimension of the classes: 1 "
            "or more, or -1 for the last (0 is the batch)");
}

TEST(Specs, LossByName) {
  for (const char *text : {"total", "output(total)"}) {
    auto spec = parseLoss(text);
    ASSERT_TRUE(bool(spec));
    EXPECT_EQ(spec->name, "output");
    EXPECT_EQ(spec->prediction, "total");
  }
}

TEST(Specs, WrongLosses) {
  EXPECT_EQ(lossError(""),
            "option loss is missing, expected as cross_entropy(logits,labels)");
  EXPECT_EQ(
      lossError("hinge(a,b)"),
      "option loss: unknown loss 'hinge', expected cross_entropy, nll, mse, "
      "l1, bce_with_logits, huber or output; one that the model computes is "
      "an output of it: option loss=NAME");
  EXPECT_EQ(lossError("mse(a,b"),
            "option loss: 'mse(a,b' does not end with ')'");
  EXPECT_EQ(lossError("mse(a)"),
            "option loss: 'mse(a)', expected mse(OUTPUT,TARGET)");
  EXPECT_EQ(lossError("mse(a,b,ignore_index=3)"),
            "option loss: unknown option 'ignore_index', expected reduction");
  EXPECT_EQ(lossError("huber(a,b,delta=0)"),
            "option loss: delta is '0', expected a number from 1e-06 to 1e+06");
  EXPECT_EQ(lossError("huber(a,b,beta=1)"),
            "option loss: unknown option 'beta', expected reduction, delta");
  EXPECT_EQ(lossError("l1(a,b,reduction=none)"),
            "option loss: reduction is 'none', expected mean or sum");
  EXPECT_EQ(
      lossError("cross_entropy(a,b,label_smoothing=2)"),
      "option loss: label_smoothing is '2', expected a number from 0 to 1");
}

TEST(Specs, OptimizersHavePyTorchsDefaults) {
  auto adamw = parseOptimizer("adamw,lr=3e-4,no_decay=a,b=c|.*bias");
  ASSERT_TRUE(bool(adamw));
  EXPECT_EQ(adamw->name, "adamw");
  EXPECT_EQ(adamw->learningRate, 3e-4);
  EXPECT_EQ(adamw->weightDecay, 0.01);
  EXPECT_EQ(adamw->option("eps"), 1e-8);
  // The pattern is the rest, commas and all.
  EXPECT_EQ(adamw->noDecay, "a,b=c|.*bias");
  auto momentum = parseOptimizer("momentum,nesterov,wd=1e-3");
  ASSERT_TRUE(bool(momentum));
  EXPECT_EQ(momentum->name, "momentum");
  EXPECT_EQ(momentum->option("momentum"), 0.9);
  EXPECT_EQ(momentum->option("nesterov"), 1);
  for (std::string on : {"true", "True", "1"}) {
    auto spec = parseOptimizer("momentum,nesterov=" + on);
    ASSERT_TRUE(bool(spec)) << on;
    EXPECT_EQ(spec->option("nesterov"), 1) << on;
  }
  for (std::string off : {"false", "False", "0"}) {
    auto spec = parseOptimizer("sgd,nesterov=" + off);
    ASSERT_TRUE(bool(spec)) << off;
    EXPECT_EQ(spec->option("nesterov"), 0) << off;
  }
  auto damped = parseOptimizer("sgd,momentum=0.9,dampening=0.1");
  ASSERT_TRUE(bool(damped));
  EXPECT_EQ(damped->option("dampening"), 0.1);
  auto adagrad = parseOptimizer("adagrad");
  ASSERT_TRUE(bool(adagrad));
  EXPECT_EQ(adagrad->option("eps"), 1e-10);
  EXPECT_EQ(adagrad->learningRate, 0.01);
}

TEST(Specs, WrongOptimizers) {
  EXPECT_EQ(
      optimizerError("lion"),
      "option optimizer: unknown optimizer 'lion', expected sgd, momentum, "
      "adam, adamw, adagrad or rmsprop");
  EXPECT_EQ(optimizerError("rmsprop,beta1=0.9"),
            "option optimizer: rmsprop has no option 'beta1', expected lr, wd "
            "(or weight_decay), no_decay, alpha, eps or momentum");
  EXPECT_EQ(optimizerError("sgd,beta1=0.9"),
            "option optimizer: sgd has no option 'beta1', expected lr, wd "
            "(or weight_decay), no_decay, momentum, dampening or nesterov");
  EXPECT_EQ(
      optimizerError("adam,lr=fast"),
      "option optimizer: lr is 'fast', expected a number from 0 to 1e+06");
  EXPECT_EQ(optimizerError("sgd,nesterov"),
            "option optimizer: nesterov needs a momentum");
  for (std::string text : {"TRUE", "yes", "2", "1.0", "0.0"})
    EXPECT_EQ(optimizerError("momentum,nesterov=" + text),
              "option optimizer: nesterov is '" + text +
                  "', expected true or false (or True, False, 1, 0)");
  EXPECT_EQ(optimizerError("sgd,dampening=0.1"),
            "option optimizer: dampening needs a momentum");
  EXPECT_EQ(optimizerError("momentum,nesterov,dampening=0.1"),
            "option optimizer: nesterov knows no dampening");
}

} // namespace
