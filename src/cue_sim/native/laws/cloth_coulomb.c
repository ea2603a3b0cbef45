// The cloth law: Coulomb sliding until the contact point's slip is gone, then rolling resistance; spin about the
// vertical decays on its own. Closed form inside each phase (Alciatore, billiards.colostate.edu, TP 4.1 and TP B.8).
#include <math.h>

#include "law.h"

static double rolling_coefficient(const cue_laws* laws, const cue_ball* ball, double vx, double vy, double speed) {
  double k = laws->rolling_friction * (1 + laws->rolling_slope * speed);
  if ((laws->nap_x2 != 0 || laws->nap_y2 != 0) && speed > 0) {
    k *= 1 + (laws->nap_x2 * (vx * vx - vy * vy) + laws->nap_y2 * (2 * vx * vy)) / (speed * speed);
  }
  if (laws->uneven != 0) k *= cue_cloth_factor(laws, ball->x, ball->y);
  if (laws->correction) {
    cue_ball rolls = *ball;
    rolls.vx = vx;
    rolls.vy = vy;
    k *= laws->correction->rolling(laws->correction, &rolls);
  }
  return k > 0 ? k : 0;
}

// Advances one ball by h; the axis frame is the table's.
static void roll(const cue_laws* laws, const double* own, double radius, double h, cue_ball* ball) {
  (void)own;
  const double g = laws->gravity, R = radius;
  double rest = h;
  double vx = ball->vx, vy = ball->vy;
  if (vx == 0 && vy == 0 && ball->wx == 0 && ball->wy == 0) {
    // still: rolling resistance holds it unless the bed is steeper
    if (cue_is_steep(laws, ball->x, ball->y)) {
      vx = 5. / 7 * g * laws->tilt_x * 1e-9;  // a nudge down the slope picks the branch below
      vy = 5. / 7 * g * laws->tilt_y * 1e-9;
      ball->wx = -vy / R;
      ball->wy = vx / R;
    } else {
      rest = 0;
    }
  }
  const double tilt_x = g * laws->tilt_x, tilt_y = g * laws->tilt_y;
  const double ux = vx - R * ball->wy, uy = vy + R * ball->wx, u = hypot(ux, uy);
  if (rest > 0 && u > 1e-12) {
    const double a = laws->sliding_friction * g, cx = ux / u, cy = uy / u;
    // slip shrinks by 7/2 of the friction and grows by the slope along it
    const double decay = 3.5 * a - (tilt_x * cx + tilt_y * cy);
    const double t = decay > 0 ? fmin(rest, u / decay) : rest;
    const double ax = -a * cx + tilt_x, ay = -a * cy + tilt_y;
    ball->x += vx * t + .5 * ax * t * t;
    ball->y += vy * t + .5 * ay * t * t;
    vx += ax * t;
    vy += ay * t;
    ball->wx += 2.5 / R * (-a * cy) * t;
    ball->wy -= 2.5 / R * (-a * cx) * t;
    const double across = tilt_y * cx - tilt_x * cy;
    if (across != 0 && decay > 0) {
      // The slip turns down the slope, and friction with it. With w left along c the slip across it is, to the first
      // order in slope over friction, across / decay w ln(u / w), not across t; 2/7 of the difference is the centre's.
      const double left = fmax(1 - decay * t / u, 0), bend = left > 0 ? left * log(left) : 0;
      const double slip = across / decay * u * -bend - across * t;
      const double swept = across / (decay * decay) * u * u * (.25 + left * (.5 * bend - .25 * left));
      const double way = swept - .5 * across * t * t;
      ball->x -= 2. / 7 * way * cy;
      ball->y += 2. / 7 * way * cx;
      vx -= 2. / 7 * slip * cy;
      vy += 2. / 7 * slip * cx;
      ball->wx += 5. / 7 * slip * cx / R;
      ball->wy += 5. / 7 * slip * cy / R;
    }
    rest -= t;
    if (rest > 0) {  // rolling begins inside this step
      ball->wx = -vy / R;
      ball->wy = vx / R;
    }
  }
  if (rest > 0) {
    const double speed = hypot(vx, vy), sx = 5. / 7 * tilt_x, sy = 5. / 7 * tilt_y;
    if (speed > 1e-12) {
      const double a = 5. / 7 * g * rolling_coefficient(laws, ball, vx, vy, speed);
      const double ax = -a * vx / speed + sx, ay = -a * vy / speed + sy;
      const double decay = -(ax * vx + ay * vy) / speed;
      double t = rest;
      int stops = 0;
      if (decay > 0 && speed / decay <= rest && hypot(sx, sy) <= a) {
        t = speed / decay;
        stops = 1;
      }
      ball->x += vx * t + .5 * ax * t * t;
      ball->y += vy * t + .5 * ay * t * t;
      vx = stops ? 0 : vx + ax * t;
      vy = stops ? 0 : vy + ay * t;
    } else {
      vx = vy = 0;
    }
    ball->wx = -vy / R;
    ball->wy = vx / R;
  }
  ball->vx = vx;
  ball->vy = vy;
  const double dw = laws->spinning_deceleration * h;
  ball->wz = fabs(ball->wz) <= dw ? 0 : ball->wz - copysign(dw, ball->wz);
}

static double bound(const cue_laws* laws, const double* own, double radius, const cue_ball* ball) {
  (void)own;
  const double slope = laws->gravity * (fabs(laws->tilt_x) + fabs(laws->tilt_y));
  const double speed2 = ball->vx * ball->vx + ball->vy * ball->vy;
  if (speed2 == 0 && ball->wx == 0 && ball->wy == 0) return slope;
  double rolling = laws->gravity * laws->rolling_friction;
  if (laws->rolling_slope != 0 || laws->nap_x2 != 0 || laws->nap_y2 != 0) {
    const double spin = sqrt(ball->wx * ball->wx + ball->wy * ball->wy), speed = sqrt(speed2) + radius * spin;
    // sliding may yet speed it up
    rolling *= (1 + fmax(laws->rolling_slope, 0) * speed) * (1 + fabs(laws->nap_x2) + fabs(laws->nap_y2));
  }
  rolling *= laws->roughest;
  if (laws->correction) rolling *= laws->correction->rolling_most;
  const double ux = ball->vx - radius * ball->wy, uy = ball->vy + radius * ball->wx;
  if (ux * ux + uy * uy < 1e-22) return rolling + slope;
  return fmax(laws->gravity * laws->sliding_friction, rolling) + slope;
}

// Otherwise the acceleration turns or changes within a phase. A nap alone does not turn it: a ball rolls straight on.
static int exact(const cue_laws* laws, const double* own) {
  (void)own;
  return laws->tilt_x == 0 && laws->tilt_y == 0 && laws->rolling_slope == 0 && laws->uneven == 0 && !laws->correction;
}

CUE_CLOTH_LAW(coulomb, roll, .bound = bound, .exact = exact,
              .source = "Alciatore, billiards.colostate.edu, TP 4.1 and B.8",
              .description = "Coulomb sliding, then rolling resistance; spin about the vertical decays on its own")
