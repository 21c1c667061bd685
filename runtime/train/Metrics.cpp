//===- Metrics.cpp - loss and accuracy of outputs -------------------------===//
//
// Every loss a second time, in double on the host: evaluation shares no code
// with the trained step.
//
//===----------------------------------------------------------------------===//
#include "Metrics.h"

#include "Data.h"

#include <algorithm>
#include <cmath>

using namespace kerf::rt;

namespace {
/// A loss of a prediction and a target, element by element.
struct ElementLoss {
  const char *name;
  double (*value)(double x, double y, const TrainLoss &loss);
  /// Right where prediction and target are on one side: of 0 and of 1/2.
  bool hasAccuracy = false;
};

const ElementLoss elementLosses[] = {
    {"mse",
     [](double x, double y, const TrainLoss &) { return (x - y) * (x - y); }},
    {"l1",
     [](double x, double y, const TrainLoss &) { return std::abs(x - y); }},
    {"bce_with_logits",
     // max(x, 0) - x y + log(1 + exp(-|x|)) does not overflow
     [](double x, double y, const TrainLoss &) {
       return std::max(x, 0.0) - x * y + std::log1p(std::exp(-std::abs(x)));
     },
     true},
    {"huber",
     [](double x, double y, const TrainLoss &loss) {
       double delta = loss.options.at("delta"), size = std::abs(x - y);
       return size < delta ? size * size / 2 : delta * (size - delta / 2);
     }},
};

const ElementLoss &findElementLoss(const std::string &name) {
  for (const ElementLoss &loss : elementLosses)
    if (name == loss.name)
      return loss;
  throw Error(KERF_INVALID_ARGUMENT,
              cat("evaluation does not know the loss \"", name, "\""));
}

/// Elements [begin, begin + count) of a tensor as another type.
template <typename T>
std::vector<T> values(const MetricTensor &tensor, kerf_dtype_t as,
                      int64_t begin, int64_t count) {
  ConvertFn convert = exactConversion(tensor.dtype, as);
  if (!convert)
    throw Error(KERF_INVALID_ARGUMENT,
                cat("evaluation cannot read ", kerf_dtype_name(tensor.dtype)));
  std::vector<T> result(static_cast<size_t>(count));
  convert(tensor.data + begin * dtypeSize(tensor.dtype),
          reinterpret_cast<char *>(result.data()), count);
  return result;
}

void addClasses(const TrainLoss &loss, const MetricTensor &output,
                const MetricTensor &labels, int64_t samples, Metrics &metrics) {
  Shape rows = output.shape;
  auto rank = static_cast<int64_t>(rows.size());
  int64_t dim = loss.classDim < 0 ? rank + loss.classDim : loss.classDim;
  bool isDim = 0 < dim && dim < rank;
  int64_t classes = isDim ? rows[dim] : 0, inner = 1;
  if (isDim) {
    for (int64_t d = dim + 1; d < rank; ++d)
      inner *= rows[d];
    rows.erase(rows.begin() + dim);
  }
  if (rows != labels.shape || rows.empty() || classes < 1)
    throw Error(KERF_INVALID_ARGUMENT,
                cat("output \"", loss.output, "\" has shape ",
                    shapeString(output.shape), ", labels have ",
                    shapeString(labels.shape), ", expected ",
                    shapeString(rows)));
  int64_t perSample = rows[0] ? numElements(rows) / rows[0] : 0;
  std::vector<int64_t> wanted =
      values<int64_t>(labels, KERF_I64, 0, samples * perSample);
  std::vector<double> block, x(static_cast<size_t>(classes));
  metrics.hasAccuracy = true;
  for (size_t row = 0; row < wanted.size(); ++row) {
    // The scores of one label lie `inner` apart, in a block that `inner` labels
    // share.
    int64_t label = wanted[row], size = classes * inner;
    auto column = static_cast<int64_t>(row) % inner;
    if (column == 0)
      block = values<double>(output, KERF_F64,
                             static_cast<int64_t>(row) / inner * size, size);
    if (label == loss.ignoreIndex)
      continue;
    if (label < 0 || label >= classes)
      throw Error(KERF_INVALID_ARGUMENT,
                  cat("a label is ", label, ", expected 0 to ", classes - 1));
    for (int64_t c = 0; c < classes; ++c)
      x[c] = block[c * inner + column];
    auto largest = std::max_element(x.begin(), x.end());
    double value = -x[label];
    if (loss.name == "cross_entropy") {
      double sum = 0;
      for (double each : x)
        sum += std::exp(each - *largest);
      value += *largest + std::log(sum);
    }
    double weight = loss.classWeights.empty()
                        ? 1
                        : loss.classWeights.at(static_cast<size_t>(label));
    metrics.lossSum += weight * value;
    metrics.weight += weight;
    ++metrics.count;
    metrics.correct += largest - x.begin() == label;
  }
}

void addElements(const TrainLoss &loss, const MetricTensor &output,
                 const MetricTensor &labels, int64_t samples,
                 Metrics &metrics) {
  if (output.shape != labels.shape || output.shape.empty())
    throw Error(KERF_INVALID_ARGUMENT,
                cat("output \"", loss.output, "\" has shape ",
                    shapeString(output.shape), ", labels have ",
                    shapeString(labels.shape)));
  int64_t batch = output.shape[0];
  int64_t count = batch ? numElements(output.shape) / batch * samples : 0;
  std::vector<double> x = values<double>(output, KERF_F64, 0, count);
  std::vector<double> y = values<double>(labels, KERF_F64, 0, count);
  const ElementLoss &each = findElementLoss(loss.name);
  metrics.hasAccuracy = each.hasAccuracy;
  for (size_t i = 0; i < x.size(); ++i) {
    metrics.lossSum += each.value(x[i], y[i], loss);
    metrics.correct += (x[i] > 0) == (y[i] > 0.5);
  }
  metrics.count += count;
  metrics.weight += static_cast<double>(count);
}
} // namespace

bool TrainLoss::hasClasses() const {
  return name == "cross_entropy" || name == "nll";
}

void kerf::rt::addMetrics(const TrainLoss &loss, const MetricTensor &output,
                          const MetricTensor *labels, int64_t samples,
                          Metrics &metrics) {
  metrics.samples += samples;
  if (loss.isScalar()) { // of a whole batch
    metrics.lossSum += values<double>(output, KERF_F64, 0, 1)[0] *
                       static_cast<double>(samples);
    metrics.count += samples;
    metrics.weight += static_cast<double>(samples);
    return;
  }
  if (!labels)
    throw Error(KERF_INVALID_ARGUMENT, "evaluation has no labels");
  if (loss.hasClasses())
    addClasses(loss, output, *labels, samples, metrics);
  else
    addElements(loss, output, *labels, samples, metrics);
}
