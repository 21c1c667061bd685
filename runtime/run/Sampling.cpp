//===- Sampling.cpp - an id from logits -----------------------------------===//
#include "kerf/rt/generate.h"

#include <algorithm>
#include <cmath>

using namespace kerf::rt;

int64_t kerf::rt::chooseToken(const float *logits, int64_t count,
                              const Sampling &sampling, double draw) {
  std::vector<int64_t> order;
  int64_t best = -1;
  for (int64_t i = 0; i < count; ++i) {
    if (std::isnan(logits[i]))
      continue;
    order.push_back(i);
    if (best < 0 || logits[i] > logits[best])
      best = i;
  }
  if (best < 0 || sampling.temperature == 0 || std::isinf(logits[best]))
    return best;
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return logits[a] > logits[b]; });
  if (sampling.topK > 0 && sampling.topK < static_cast<int64_t>(order.size()))
    order.resize(static_cast<size_t>(sampling.topK));
  std::vector<double> weights;
  double sum = 0;
  for (int64_t i : order) {
    weights.push_back(std::exp((double(logits[i]) - double(logits[best])) /
                               sampling.temperature));
    sum += weights.back();
  }
  double kept = 0;
  size_t number = 0;
  while (number < weights.size() && (number == 0 || kept < sampling.topP * sum))
    kept += weights[number++];
  double left = draw * kept;
  for (size_t i = 0; i + 1 < number; ++i) {
    left -= weights[i];
    if (left < 0)
      return order[i];
  }
  return order[number - 1];
}
