// Coulomb friction in one step of an impact that is integrated over its impulse.
#ifndef CUE_FRICTION_H_
#define CUE_FRICTION_H_

#include <math.h>

// Sets the friction f: what ends the slip, else the limit against the slip's direction midway through the step.
// slip: at the start; then: at the end without this friction; k: growth of slip with each component of it. On entry f
// holds a guess, or zeros; calling again with frictions that act on each other brings them to agree.
static inline void cue_rub(const double slip[2], const double then[2], const double k[2], double limit, double f[2]) {
  const double stop[2] = {-then[0] / k[0], -then[1] / k[1]}, size = hypot(stop[0], stop[1]);
  if (size <= limit) {
    f[0] = stop[0];
    f[1] = stop[1];
    return;
  }
  // from the friction guessed so far
  const double now = hypot(f[0], f[1]);
  if (now == 0) {
    f[0] = stop[0] / size * limit;
    f[1] = stop[1] / size * limit;
  } else if (now > limit) {
    f[0] *= limit / now;
    f[1] *= limit / now;
  }
  const double mid[2] = {slip[0] + then[0] + k[0] * f[0], slip[1] + then[1] + k[1] * f[1]};
  const double speed = hypot(mid[0], mid[1]);
  if (speed == 0) return;
  f[0] = -limit * mid[0] / speed;
  f[1] = -limit * mid[1] / speed;
}

#endif  // CUE_FRICTION_H_
