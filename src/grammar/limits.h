// Bounds that keep grammars from outside small and every step short.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringkeep::grammar {

// Front ends: more is an error.
inline constexpr size_t kMostText = size_t{1} << 20;  // bytes of a grammar's source
inline constexpr size_t kMostExpressions = 400'000;   // of one grammar
inline constexpr size_t kMostRules = 50'000;
inline constexpr uint16_t kMostHeight = 1'000;         // nesting of one rule's expression
inline constexpr uint16_t kMostCalls = 500;            // that the least text of a rule nests
inline constexpr uint32_t kMostRepeats = 100'000'000;  // a count that is written out
inline constexpr size_t kMostDfaStates = 20'000;
inline constexpr size_t kMostDfaEntries = 4'000'000;     // states times byte classes, of all
inline constexpr size_t kMostPattern = size_t{1} << 16;  // bytes of a regular expression
inline constexpr size_t kMostMark = 64;                  // bytes of a mark around strings
// Names beside further ones that a schema allows: bytes of one, and of all (a tree of their
// characters, which is walked to its depth).
inline constexpr size_t kMostNamed = 900, kMostNamedInAll = 40'000;
inline constexpr size_t kMostStringRules = 500;  // patterns and formats of a schema

// A reply's state: what goes beyond is dropped. Each alternative that is kept can be brought to an
// end within the bounds, so that dropping others only narrows what may follow.
inline constexpr size_t kMostAlternatives = 8'192;  // of one frame
inline constexpr size_t kMostStacks = 512;
inline constexpr uint32_t kMostFrames = 1'024;  // depth of a stack

// Memory of one reply's automaton before it is built anew from the current state.
inline constexpr size_t kMostReplyExpressions = 200'000;
inline constexpr size_t kMostReplyRowEntries = 4'000'000;  // of transitions
// Work (ExprPool::work): of one step, and more for each part of its grammar, which then drops the
// readings that it did not come to; of one walk over the vocabulary, which then goes on with single
// bytes alone; of one mask in all, which is an error beyond it; and for the constraints of strings
// and numbers of one schema.
inline constexpr uint32_t kMostStepWork = 50'000, kMostPartWork = 10;
inline constexpr uint64_t kMostWalkWork = 3'000'000;
inline constexpr uint64_t kMostMaskWork = 4'000'000;
inline constexpr uint64_t kMostSchemaWork = 10'000'000;

inline constexpr char kControlMark = '\xFF';

}  // namespace ringkeep::grammar
