// Balls that lean on something on a tilted bed. What holds such a ball is the rolling resistance against the part of the
// slope that its contacts leave over, so that part is the slope it feels: it comes to rest though the bed be steeper than
// its cloth holds, and does not turn under the pressure when it is not.
#include <math.h>

#include "cue_kernel.h"

// Takes from (x, y) what presses ball i against its neighbours at rest and cushions; returns whether anything does.
static int project(const cue_layout* layout, const mjData* d, int i, const cue_ball* balls, const cue_touch* touch,
                   int count, double* x, double* y) {
  int pressed = 0;
  for (int c = 0; c < count; c++) {
    const int other = touch[c].a == i ? touch[c].b : touch[c].a;
    if ((touch[c].a != i && touch[c].b != i) || fabs(touch[c].approach) > CUE_SLOW_APPROACH) continue;
    if (other >= 0 && other < layout->balls && !cue_at_rest(balls + other)) continue;
    const mjtNum* frame = d->contact[touch[c].contact].frame;
    const double sign = (touch[c].a == i) == touch[c].a_first ? 1 : -1, level = hypot(frame[0], frame[1]);
    const double nx = sign * frame[0] / level, ny = sign * frame[1] / level, push = *x * nx + *y * ny;
    if (push <= 0) continue;
    *x -= push * nx;
    *y -= push * ny;
    pressed = 1;
  }
  return pressed;
}

// Writes the laws with the slope that ball i feels; returns whether it leans.
int cue_lean(const cue_layout* layout, const mjData* d, int i, const cue_ball* balls, const cue_touch* touch, int count,
             const cue_laws* laws, cue_laws* felt) {
  double x = laws->tilt_x, y = laws->tilt_y;
  if (!project(layout, d, i, balls, touch, count, &x, &y)) return 0;
  int wedged = 0;  // in a corner the contacts leave nothing over
  for (int sweep = 0; sweep < 20; sweep++) wedged = project(layout, d, i, balls, touch, count, &x, &y);
  const double left = wedged && hypot(x, y) < 1e-3 * hypot(laws->tilt_x, laws->tilt_y) ? 0 : 1;
  *felt = *laws;
  felt->tilt_x = left * x;
  felt->tilt_y = left * y;
  return 1;
}
