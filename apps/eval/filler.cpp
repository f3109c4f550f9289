#include "eval/filler.h"

#include <array>
#include <random>

namespace ringkeep::eval {
namespace {

constexpr std::array kTimes = {"In the morning",          "Later that week", "Toward evening",
                               "After the rain",          "On most days",    "During the winter",
                               "By the end of the month", "Before lunch",    "Every so often",
                               "When the market closed",  "Around noon",     "That autumn"};
constexpr std::array kSubjects = {"the gardener",        "a neighbour",
                                  "the librarian",       "the older carpenter",
                                  "a visiting engineer", "the baker's apprentice",
                                  "the ferry crew",      "a retired teacher",
                                  "the night watchman",  "the youngest of the clerks",
                                  "a group of walkers",  "the museum's caretaker"};
constexpr std::array kVerbs = {"repaired",   "described", "carried away", "looked for",
                               "painted",    "measured",  "wrote about",  "cleaned",
                               "remembered", "sorted",    "photographed", "put back"};
constexpr std::array kObjects = {
    "the wooden gate",  "a stack of old maps",   "the copper kettle",  "three empty baskets",
    "the long table",   "a box of seed packets", "the stone steps",    "several heavy ledgers",
    "the harbour lamp", "a pair of worn boots",  "the broken sundial", "some bundles of reed"};
constexpr std::array kPlaces = {
    "beside the canal",         "behind the workshop",     "in the upper hall",
    "near the railway bridge",  "under the walnut tree",   "at the edge of the field",
    "on the way to the quarry", "in a corner of the yard", "by the kitchen window",
    "along the northern wall",  "outside the post office", "above the stables"};
constexpr std::array kEndings = {"and nobody thought much of it.",
                                 "which took longer than anyone had planned.",
                                 "although the weather was about to change.",
                                 "and the whole street heard about it by supper.",
                                 "because it had stood there for years.",
                                 "while the others talked about the price of coal.",
                                 "and then went home without a word.",
                                 "so that the path was free again.",
                                 "with more patience than skill.",
                                 "and found that the work agreed with them."};

template <typename Words>
const char* pick(const Words& words, std::mt19937_64& random) {
  return words[random() % words.size()];
}

}  // namespace

std::string filler_text(size_t bytes) {
  std::mt19937_64 random(7);
  std::string text;
  for (size_t sentence = 1; text.size() < bytes; ++sentence) {
    text += pick(kTimes, random);
    text += " ";
    text += pick(kSubjects, random);
    text += " ";
    text += pick(kVerbs, random);
    text += " ";
    text += pick(kObjects, random);
    text += " ";
    text += pick(kPlaces, random);
    text += ", ";
    text += pick(kEndings, random);
    text += sentence % 6 == 0 ? "\n" : " ";
  }
  return text;
}

}  // namespace ringkeep::eval
