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

/// What is asked for instead of a name, or "" where all are listed.
static std::string meant(const std::string &error) {
  std::string before = ", did you mean '";
  size_t at = error.find(before);
  return at == std::string::npos ? "" : error.substr(at + before.size() - 1);
}

TEST(Specs, LossesOfOtherFrameworks) {
  for (auto [name, ours] : std::vector<std::pair<std::string, std::string>>{
           {"mae", "'l1'?"},
           {"L1Loss", "'l1'?"},
           {"l1_loss", "'l1'?"},
           {"mean_absolute_error", "'l1'?"},
           {"l2", "'mse'?"},
           {"mse_loss", "'mse'?"},
           {"MSELoss", "'mse'?"},
           {"smooth_l1", "'huber' (with delta=1 it is smooth_l1 with beta=1)?"},
           {"SmoothL1Loss",
            "'huber' (with delta=1 it is smooth_l1 with beta=1)?"},
           {"huber_loss", "'huber'?"},
           {"bce", "'bce_with_logits' (of what enters the sigmoid)?"},
           {"BCEWithLogitsLoss", "'bce_with_logits'?"},
           {"binary_cross_entropy_with_logits", "'bce_with_logits'?"},
           {"nll_loss", "'nll'?"},
           {"crossentropy", "'cross_entropy'?"},
           {"CrossEntropyLoss", "'cross_entropy'?"},
           {"sparse_categorical_crossentropy", "'cross_entropy'?"},
           {"hubr", "'huber'?"},
           // No slips: another loss would be trained.
           {"rmse", ""},
           {"msle", ""},
           {"kl_div", ""},
           {"KLDivLoss", ""},
           {"poisson_nll", ""}})
    EXPECT_EQ(meant(lossError(name + "(a,b)")), ours) << name;
  EXPECT_EQ(lossError("cross_entropy(a,b,smoothing=0.1)"),
            "option loss: unknown option 'smoothing', expected reduction, dim, "
            "ignore_index, weight=W0:W1:..., label_smoothing; the nearest to "
            "it is label_smoothing");
}

TEST(Specs, OptimizersOfOtherFrameworks) {
  for (auto [name, ours] : std::vector<std::pair<std::string, std::string>>{
           {"sgdm", "'momentum'?"},
           {"nag", "'momentum' (with nesterov=true)?"},
           {"AdamW", "'adamw'?"},
           {"adamw_torch", "'adamw'?"},
           {"adma", "'adam'?"},
           {"adamax", ""},
           {"nadam", ""},
           {"radam", ""},
           {"asgd", ""},
           {"lamb", ""}})
    EXPECT_EQ(meant(optimizerError(name)), ours) << name;
  auto adam = parseOptimizer(
      "adam,learning_rate=0.5,epsilon=0.25,beta_1=0.125,weight_decay=2");
  ASSERT_TRUE(bool(adam));
  EXPECT_EQ(adam->learningRate, 0.5);
  EXPECT_EQ(adam->option("eps"), 0.25);
  EXPECT_EQ(adam->option("beta1"), 0.125);
  EXPECT_EQ(adam->weightDecay, 2);
  auto rmsprop = parseOptimizer("rmsprop,rho=0.5");
  ASSERT_TRUE(bool(rmsprop));
  EXPECT_EQ(rmsprop->option("alpha"), 0.5);
  EXPECT_EQ(optimizerError("adam,lr=1,learning_rate=2"),
            "option optimizer: learning_rate is given twice (as lr, too)");
  EXPECT_EQ(optimizerError("adam,momentum=0.9"),
            "option optimizer: adam has no option 'momentum', expected lr, wd "
            "(or weight_decay), no_decay, beta1, beta2 or eps; the nearest to "
            "it is beta1");
  EXPECT_EQ(optimizerError("sgd,epsilon=1"),
            "option optimizer: sgd has no option 'epsilon', expected lr, wd "
            "(or weight_decay), no_decay, momentum, dampening or nesterov");
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
            "(or weight_decay), no_decay, alpha, eps or momentum; the nearest "
            "to it is momentum");
  EXPECT_EQ(optimizerError("sgd,beta1=0.9"),
            "option optimizer: sgd has no option 'beta1', expected lr, wd "
            "(or weight_decay), no_decay, momentum, dampening or nesterov; the "
            "nearest to it is momentum");
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
