//===- Index.cpp - arithmetic on symbolic indices -------------------------===//
//
// See Index.h. Worked example: i < 12 and j < 64 give flat = 64 i + j. divide
// by 64 splits off 64 i; the rest j has the range [0, 64), so the quotient is i
// and the remainder j. divide by 48 finds no multiple; the common divisor of 64
// and 48 does not divide j's coefficient, so two atoms stand for the result,
// which 48 q + r turns back into 64 i + j.
//
//===----------------------------------------------------------------------===//
#include "Index.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace llvm;

namespace kerf::codegen {

int64_t Index::coefficient(AtomId atom) const {
  for (auto [id, value] : terms)
    if (id == atom)
      return value;
  return 0;
}

bool Index::operator<(const Index &other) const {
  if (constant != other.constant)
    return constant < other.constant;
  return std::lexicographical_compare(terms.begin(), terms.end(),
                                      other.terms.begin(), other.terms.end());
}

AtomId IndexSpace::addLoop(int64_t size) {
  atoms.push_back({Atom::Kind::Loop, 0, std::max<int64_t>(size, 1) - 1, {}, 1});
  return atoms.size() - 1;
}

AtomId IndexSpace::addRuntime(int64_t low, int64_t high) {
  atoms.push_back({Atom::Kind::Runtime, low, high, {}, 1});
  return atoms.size() - 1;
}

Index IndexSpace::get(AtomId atom, int64_t coefficient) const {
  Index result;
  if (atoms[atom].low == atoms[atom].high)
    result.constant = atoms[atom].low * coefficient;
  else if (coefficient)
    result.terms.push_back({atom, coefficient});
  return result;
}

static Index addTerms(const Index &a, const Index &b) {
  Index result(a.constant + b.constant);
  auto i = a.terms.begin(), j = b.terms.begin();
  while (i != a.terms.end() || j != b.terms.end()) {
    if (j == b.terms.end() || (i != a.terms.end() && i->first < j->first)) {
      result.terms.push_back(*i++);
    } else if (i == a.terms.end() || j->first < i->first) {
      result.terms.push_back(*j++);
    } else {
      if (int64_t sum = i->second + j->second)
        result.terms.push_back({i->first, sum});
      ++i, ++j;
    }
  }
  return result;
}

Index IndexSpace::scale(const Index &a, int64_t factor) const {
  Index result;
  if (!factor)
    return result;
  result = a;
  result.constant *= factor;
  for (auto &term : result.terms)
    term.second *= factor;
  return result;
}

Index IndexSpace::add(const Index &a, const Index &b) const {
  Index sum = addTerms(a, b);
  // k (x mod d) + k d (x div d) = k x.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [remainder, k] : sum.terms) {
      const Atom &atom = atoms[remainder];
      if (atom.kind != Atom::Kind::Remainder)
        continue;
      for (auto [quotient, kd] : sum.terms) {
        const Atom &other = atoms[quotient];
        if (other.kind != Atom::Kind::Quotient || kd != k * atom.divisor ||
            other.divisor != atom.divisor || other.argument != atom.argument)
          continue;
        Index without = addTerms(sum, get(remainder, -k));
        without = addTerms(without, get(quotient, -kd));
        sum = addTerms(without, scale(atom.argument, k));
        changed = true;
        break;
      }
      if (changed)
        break;
    }
  }
  return sum;
}

std::pair<int64_t, int64_t> IndexSpace::range(const Index &a) const {
  int64_t low = a.constant, high = a.constant;
  for (auto [atom, k] : a.terms) {
    low += k * (k > 0 ? atoms[atom].low : atoms[atom].high);
    high += k * (k > 0 ? atoms[atom].high : atoms[atom].low);
  }
  return {low, high};
}

AtomId IndexSpace::intern(Atom::Kind kind, const Index &argument,
                          int64_t divisor) {
  auto key = std::make_pair(
      argument, std::make_pair(divisor, kind == Atom::Kind::Quotient));
  auto [low, high] = range(argument);
  int64_t first = divideFloorSigned(low, divisor),
          last = divideFloorSigned(high, divisor);
  Atom atom{kind, first, last, argument, divisor};
  if (kind == Atom::Kind::Remainder) {
    atom.low = first == last ? low - first * divisor : 0;
    atom.high = first == last ? high - first * divisor : divisor - 1;
  }
  auto [it, inserted] = interned.try_emplace(key, atoms.size());
  if (inserted)
    atoms.push_back(atom);
  else
    // Loop ranges may have been narrowed or widened since.
    setRange(it->second, atom.low, atom.high);
  return it->second;
}

std::pair<Index, Index> IndexSpace::divide(const Index &a, int64_t divisor) {
  if (divisor == 1)
    return {a, Index(0)};
  Index quotient(divideFloorSigned(a.constant, divisor));
  Index rest(a.constant - quotient.constant * divisor);
  for (auto [atom, k] : a.terms) {
    // Floor, so that the rest keeps coefficients in [0, divisor).
    int64_t multiple = k % divisor == 0 ? k / divisor : 0;
    if (multiple)
      quotient.terms.push_back({atom, multiple});
    else
      rest.terms.push_back({atom, k});
  }
  auto [low, high] = range(rest);
  int64_t first = divideFloorSigned(low, divisor);
  if (first == divideFloorSigned(high, divisor)) {
    quotient.constant += first;
    rest.constant -= first * divisor;
    return {quotient, rest};
  }
  // Divide all coefficients and the divisor by their common divisor.
  int64_t common = divisor;
  for (auto [atom, k] : rest.terms)
    common = std::gcd(common, k);
  if (common > 1) {
    Index inner(divideFloorSigned(rest.constant, common));
    int64_t left = rest.constant - inner.constant * common;
    for (auto [atom, k] : rest.terms)
      inner.terms.push_back({atom, k / common});
    auto [q, r] = divide(inner, divisor / common);
    Index remainder = scale(r, common);
    remainder.constant += left;
    return {add(quotient, q), remainder};
  }
  Index q = get(intern(Atom::Kind::Quotient, rest, divisor));
  Index r = get(intern(Atom::Kind::Remainder, rest, divisor));
  return {add(quotient, q), r};
}

bool IndexSpace::dependsOn(const Index &a, AtomId atom) const {
  for (auto [id, k] : a.terms) {
    if (id == atom)
      return true;
    const Atom &term = atoms[id];
    if ((term.kind == Atom::Kind::Quotient ||
         term.kind == Atom::Kind::Remainder) &&
        dependsOn(term.argument, atom))
      return true;
  }
  return false;
}

bool IndexSpace::dependsOnRuntime(const Index &a) const {
  return any_of(a.terms, [&](const auto &entry) {
    const Atom &term = atoms[entry.first];
    return term.kind == Atom::Kind::Runtime || dependsOnRuntime(term.argument);
  });
}

bool IndexSpace::dependsOnAny(const Index &a, ArrayRef<AtomId> of) const {
  return any_of(of, [&](AtomId atom) { return dependsOn(a, atom); });
}

Index IndexSpace::linearize(ArrayRef<Index> index, ArrayRef<int64_t> shape) {
  Index flat;
  int64_t stride = 1;
  for (size_t dim = shape.size(); dim-- > 0;) {
    if (shape[dim] != 1)
      flat = add(flat, scale(index[dim], stride));
    stride *= shape[dim];
  }
  return flat;
}

IndexVec IndexSpace::delinearize(Index flat, ArrayRef<int64_t> shape) {
  IndexVec index(shape.size());
  if (is_contained(shape, 0))
    return index;
  // The leading dimension gets the rest: no modulo.
  size_t leading = 0;
  while (leading < shape.size() && shape[leading] == 1)
    ++leading;
  for (size_t dim = shape.size(); dim-- > 0;) {
    if (shape[dim] == 1)
      continue;
    if (dim == leading) {
      index[dim] = flat;
      break;
    }
    auto [quotient, remainder] = divide(flat, shape[dim]);
    index[dim] = remainder;
    flat = quotient;
  }
  return index;
}

} // namespace kerf::codegen
