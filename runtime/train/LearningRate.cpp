//===- LearningRate.cpp - the scalars of a step ---------------------------===//
//
// Pure functions of the step's number. With w steps of warm-up, T steps in all
// and t counted from 0:
//
//   t < w:     base (t + 1) / w
//   constant:  base
//   linear:    base + (min - base) u,                u = (t - w) / (T - w)
//   cosine:    min + (base - min) (1 + cos(pi u)) / 2
//   step:      max(min, base f^floor((t - w) / k)),  f = factor, k = every
//   exponential: max(min, base f^((t - w) / k))
//
// and of linear and cosine min from step T on: PyTorch's LambdaLR for the
// warm-up followed by LinearLR (end_factor = min / base), CosineAnnealingLR
// (eta_min = min), StepLR (step_size = k, gamma = f) and ExponentialLR
// (gamma = f^(1/k)).
// Adam's bias corrections 1 - beta^n count the updates that took place.
//
//===----------------------------------------------------------------------===//
#include "kerf/rt/train.h"

#include "../base/Error.h"

#include "kerf/Format/ClosestName.h"
#include "kerf/Format/Decimal.h"

#include <algorithm>

#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace kerf::rt;

double LearningRate::at(int64_t t) const {
  if (t < warmup)
    return base * static_cast<double>(t + 1) / static_cast<double>(warmup);
  if (kind == Constant)
    return base;
  if (kind == Step || kind == Exponential) {
    double times = static_cast<double>(t - warmup) / static_cast<double>(every);
    return std::max(
        min, base * std::pow(factor, kind == Step ? std::floor(times) : times));
  }
  if (t >= steps)
    return min;
  double u =
      static_cast<double>(t - warmup) / static_cast<double>(steps - warmup);
  if (kind == Linear)
    return base + (min - base) * u;
  return min + (base - min) * (1 + std::cos(M_PI * u)) / 2;
}

std::string LearningRate::text() const {
  auto item = [](const char *key, double value) {
    char text[64];
    std::snprintf(text, sizeof(text), ",%s=%.12g", key, value);
    return std::string(text);
  };
  const char *names[] = {"constant", "linear", "cosine", "step", "exponential"};
  std::string text = names[kind] + item("lr", base);
  if (warmup > 0)
    text += item("warmup", static_cast<double>(warmup));
  if (hasEnd())
    text += item("steps", static_cast<double>(steps));
  else if (kind != Constant)
    text += item("every", static_cast<double>(every)) + item("factor", factor);
  if (min > 0)
    text += item("min", min);
  return text;
}

static bool parseNumber(const std::string &text, double &value) {
  value = std::strtod(text.c_str(), nullptr);
  return kerf::isDecimal(text) && std::isfinite(value) && value >= 0;
}

static std::string readLearningRate(const std::string &text,
                                    LearningRate &rate) {
  bool hasEnd = false, hasFactor = false;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    std::string item = text.substr(begin, end - begin);
    size_t equals = item.find('=');
    double value = 0;
    if (equals == std::string::npos) {
      if (begin != 0)
        return "'" + item + "', expected KEY=VALUE";
      if (item == "constant")
        rate.kind = LearningRate::Constant;
      else if (item == "linear")
        rate.kind = LearningRate::Linear;
      else if (item == "cosine")
        rate.kind = LearningRate::Cosine;
      else if (item == "step")
        rate.kind = LearningRate::Step;
      else if (item == "exponential")
        rate.kind = LearningRate::Exponential;
      else if (parseNumber(item, value))
        rate.base = value;
      else
        return "'" + item +
               "', expected constant, linear, cosine, step, exponential or a "
               "number";
    } else {
      std::string key = item.substr(0, equals);
      if (!parseNumber(item.substr(equals + 1), value))
        return "'" + item + "', expected a number of at least 0";
      bool whole = value == std::floor(value) && value < 1e15;
      if (key == "lr")
        rate.base = value;
      else if (key == "min")
        rate.min = value, hasEnd = true;
      else if (key == "warmup" && whole)
        rate.warmup = static_cast<int64_t>(value);
      else if (key == "steps" && whole)
        rate.steps = static_cast<int64_t>(value);
      else if (key == "every" && whole && value > 0)
        rate.every = static_cast<int64_t>(value);
      else if (key == "factor" && value > 0 && value <= 1)
        rate.factor = value, hasFactor = true;
      else if (key == "factor")
        return "'" + item + "', expected more than 0 and at most 1";
      else if (key == "warmup" || key == "steps" || key == "every")
        return "'" + item + "', expected a number of steps";
      else
        return "unknown key '" + key +
               "', expected lr, warmup, min, steps, every or factor";
    }
    begin = end + 1;
  }
  bool decays =
      rate.kind == LearningRate::Step || rate.kind == LearningRate::Exponential;
  if (hasEnd && rate.kind == LearningRate::Constant)
    return "min is where the others end, not constant";
  if (rate.steps > 0 && rate.kind == LearningRate::Constant)
    return "steps is where linear and cosine end, constant does not";
  if (decays && rate.every == 0)
    return "every=STEPS is missing: after how many the rate is multiplied by "
           "factor";
  if (decays && rate.steps > 0)
    return "steps is where linear and cosine end";
  if (!decays && (rate.every > 0 || hasFactor))
    return "every and factor are for step and exponential";
  if (hasEnd && rate.min > rate.base)
    return cat("min is ", rate.min, ", expected at most the rate, ", rate.base);
  return "";
}

std::string kerf::rt::parseLearningRate(const std::string &text,
                                        LearningRate &rate) {
  std::string wrong = readLearningRate(text, rate);
  std::string meant = wrong.empty() ? "" : kerf::withCommas(text);
  return meant.empty() ? wrong
                       : wrong + "; options have commas between them: " + meant;
}

double kerf::rt::biasCorrection(double beta, int64_t updates) {
  return 1 - std::pow(beta, static_cast<double>(updates));
}
