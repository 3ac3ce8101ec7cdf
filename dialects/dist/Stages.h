//===- Stages.h - What the stages of a pipeline are called ----------------===//
#ifndef CLEAVE_DIALECTS_DIST_STAGES_H
#define CLEAVE_DIALECTS_DIST_STAGES_H

#include <cstdint>
#include <string>

namespace cleave::dist {

/// The function, and later the program, that the ranks of a stage run.
inline std::string getStageName(int64_t stage) {
  return "stage_" + std::to_string(stage);
}

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_STAGES_H
