// Contact without rebound or friction: balls that lean on others or on a cushion, and the end of an exchange that finds
// none. Afterwards no contact approaches any more. Gauss-Seidel sweeps of two-body impulses; each takes energy away.
#include <math.h>
#include <string.h>

#include "cue_kernel.h"
#include "motion.h"

// Most sweeps, and the speed [m/s] that they may leave.
#define SWEEPS 400
#define LEFT_OVER 1e-9

void cue_press_impulse(const cue_layout* layout, const mjData* d, const cue_ball* balls, const cue_touch* touch,
                     int count, double* impulse) {
  motion state[CUE_MAX_BALLS];
  double total[CUE_MAX_TOUCHES] = {0};
  load(balls, layout->balls, state);
  memset(impulse, 0, 3 * count * sizeof(double));
  for (int sweep = 0; sweep < SWEEPS; sweep++) {
    double worst = 0;
    for (int c = 0; c < count; c++) {
      if (touch[c].approach <= -CUE_SLOW_APPROACH) continue;  // it opens: by the step's end it is far
      const mjtNum* frame = d->contact[touch[c].contact].frame;
      const double sign = touch[c].a_first ? 1 : -1, level2 = frame[0] * frame[0] + frame[1] * frame[1];
      double n[3] = {sign * frame[0], sign * frame[1], sign * frame[2]}, v[3], p[3], arm[3];
      relative(layout, state, touch[c].a, touch[c].b, n, v);
      double mobility = level2 / layout->mass[touch[c].a];
      if (touch[c].b >= 0) mobility += level2 / layout->mass[touch[c].b];
      const double before = total[c];
      total[c] = fmax(0, before - dot(v, n) / mobility);
      const double step = total[c] - before;
      worst = fmax(worst, fabs(step) * mobility);
      for (int k = 0; k < 3; k++) p[k] = step * n[k];
      for (int k = 0; k < 3; k++) impulse[3 * c + k] += sign * p[k];
      memset(arm, 0, sizeof arm);  // through the centres
      push(layout, state, touch[c].a, -1, arm, p);
      if (touch[c].b >= 0) push(layout, state, touch[c].b, 1, arm, p);
    }
    if (worst < LEFT_OVER) break;
  }
}
