//===- Training.cpp - losses and optimizers as text -----------------------===//
#include "Training.h"

#include <cmath>
#include <cstdlib>

using namespace kerf;
using namespace kerf::tool;

double Wish::number(const std::string &key, double otherwise,
                    const std::string &flag) const {
  for (const auto &[name, text] : settings) {
    if (name != key)
      continue;
    char *end = nullptr;
    double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end || !std::isfinite(value))
      throw Failure{
          kUsage, flag + ": " + key + " is '" + text + "', no number", {}};
    return value;
  }
  return otherwise;
}

Wish kerf::tool::parseWish(const std::string &text, const std::string &flag) {
  Wish wish;
  std::string inside = text;
  size_t open = text.find('('), comma = text.find(',');
  if (open != std::string::npos && open < comma) {
    if (text.back() != ')')
      throw Failure{
          kUsage, flag + ": '" + text + "' has no ')' at its end", {}};
    wish.hasParentheses = true;
    wish.name = text.substr(0, open);
    inside = text.substr(open + 1, text.size() - open - 2);
  } else {
    wish.name = text.substr(0, comma);
    inside = comma == std::string::npos ? "" : text.substr(comma + 1);
  }
  if (wish.name.empty())
    throw Failure{kUsage, flag + ": '" + text + "' has no name", {}};
  for (size_t begin = 0; begin <= inside.size() && !inside.empty();) {
    size_t end = std::min(inside.find(',', begin), inside.size());
    std::string item = inside.substr(begin, end - begin);
    size_t first = item.find_first_not_of(' ');
    item = first == std::string::npos
               ? ""
               : item.substr(first, item.find_last_not_of(' ') + 1 - first);
    size_t equals = item.find('=');
    if (item.empty())
      throw Failure{kUsage, flag + ": '" + text + "' has an empty part", {}};
    if (equals == std::string::npos)
      wish.arguments.push_back(item);
    else
      wish.settings.push_back(
          {item.substr(0, equals), item.substr(equals + 1)});
    begin = end + 1;
  }
  return wish;
}

static void describeLoss(const std::string &text, rt::TrainLoss &loss) {
  Wish wish = parseWish(text, "--loss");
  if (!wish.hasParentheses) {
    loss.kind = rt::TrainLoss::Scalar;
    loss.output = text;
    return;
  }
  const std::pair<const char *, rt::TrainLoss::Kind> kinds[] = {
      {"cross_entropy", rt::TrainLoss::CrossEntropy},
      {"nll", rt::TrainLoss::Nll},
      {"mse", rt::TrainLoss::Mse},
      {"l1", rt::TrainLoss::L1},
      {"bce_with_logits", rt::TrainLoss::BceWithLogits}};
  std::string names;
  bool known = false;
  for (const auto &[name, kind] : kinds) {
    names += (names.empty() ? "" : ", ") + std::string(name);
    if (wish.name == name) {
      loss.kind = kind;
      known = true;
    }
  }
  if (!known)
    throw Failure{kUsage,
                  "--loss: unknown '" + wish.name + "', expected one of " +
                      names + ", or the name of a scalar output",
                  {}};
  if (wish.arguments.size() != 2)
    throw Failure{kUsage,
                  "--loss: " + wish.name + " has " +
                      std::to_string(wish.arguments.size()) +
                      " arguments, expected (OUTPUT,LABELS)",
                  {}};
  loss.output = wish.arguments[0];
  loss.labels = {wish.arguments[1]};
  loss.ignoreIndex =
      static_cast<int64_t>(wish.number("ignore_index", -100, "--loss"));
}

void kerf::tool::describeTraining(const Options &options,
                                  rt::TrainOptions &loop) {
  if (options.loss.empty())
    throw Failure{kUsage,
                  "--loss is missing: as --loss='cross_entropy(logits,labels)'",
                  {}};
  if (options.optimizer.empty())
    throw Failure{
        kUsage, "--optimizer is missing: as --optimizer=adamw,lr=3e-4", {}};
  describeLoss(options.loss, loop.loss);
  Wish optimizer = parseWish(options.optimizer, "--optimizer");
  loop.rate.base = optimizer.number(
      "lr", optimizer.name == "adam" || optimizer.name == "adamw" ? 1e-3 : 1e-2,
      "--optimizer");
  loop.beta1 = optimizer.number("beta1", 0.9, "--optimizer");
  loop.beta2 = optimizer.number("beta2", 0.999, "--optimizer");
  if (options.learningRate.empty())
    return;
  std::string wrong = rt::parseLearningRate(options.learningRate, loop.rate);
  if (!wrong.empty())
    throw Failure{kUsage, "--learning-rate: " + wrong, {}};
}
