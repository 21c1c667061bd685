//===- Overwrite.cpp - the input over which a kernel writes ---------------===//
#include "kerf/Fusion/Groups.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;

int64_t kerf::chooseOverwritten(ArrayRef<Value> inputs,
                                const OverwriteQuestions &questions,
                                DenseSet<Value> &given) {
  for (auto [number, input] : llvm::enumerate(inputs)) {
    Value memory = questions.memoryOf(input);
    if (!questions.diesHere(input) || given.contains(memory))
      continue;
    // No other input may see the same bytes.
    bool isAlone = llvm::count_if(inputs, [&](Value other) {
                     return questions.memoryOf(other) == memory;
                   }) == 1;
    if (!isAlone || !questions.mayShare(number))
      continue;
    given.insert(memory);
    return static_cast<int64_t>(number);
  }
  return -1;
}
