// S. Mathavan, M. R. Jackson and R. M. Parkin, A theoretical analysis of billiard ball dynamics under cushion impacts,
// Proc. IMechE C 224 (2010) 1863-1873. The nose is rigid; the ball, held at its height between nose and slate, slips
// over both. The equations of motion are integrated over the normal impulse at the nose until its work is returned to
// e^2. The slate pushes back what the nose presses down, and rubs in proportion.
//
// Each step takes both frictions at the middle of the step, or what ends the slip if that is less, so that a contact
// that sticks does so without chatter. Steps are shorter where a slip is about to vanish, since it may turn there.
#include <math.h>

#include "friction.h"
#include "law.h"

#define STEPS 32      // per estimated impulse, at least
#define SHORTEST .01  // of such a step
#define ROUNDS 3      // of the two frictions that act on each other

typedef struct {
  double vx, vy, wx, wy, wz;  // w times R: speeds of the surface [m/s]
  double nose[2], slate[2];   // impulses so far, over m [m/s]
} state;

// Takes the ball through a normal impulse dp (over m) at the nose.
static state step(const state* from, double c, double s, double mu_nose, double mu_slate, double dp) {
  const double nose0[2] = {from->vx + from->wy * s - from->wz * c, -from->vy * s + from->wx};
  const double slate0[2] = {from->vx - from->wy, from->vy + from->wx};
  const double k_nose[2] = {3.5, 2.5 + s * s}, k_slate[2] = {3.5, 3.5};
  double f[2] = {0, 0}, g[2] = {0, 0};
  for (int round = 0; round < ROUNDS; round++) {
    const double nose1[2] = {nose0[0] + (1 - 2.5 * s) * g[0], nose0[1] + s * c * dp + (2.5 - s) * g[1]};
    cue_rub(nose0, nose1, k_nose, mu_nose * dp, f);
    const double slate1[2] = {slate0[0] + (1 - 2.5 * s) * f[0], slate0[1] - c * dp + (2.5 - s) * f[1]};
    cue_rub(slate0, slate1, k_slate, mu_slate * fmax(0, s * dp - c * f[1]), g);
  }
  state to = *from;
  to.vx += f[0] + g[0];
  to.vy += -c * dp - s * f[1] + g[1];
  to.wx += 2.5 * (f[1] + g[1]);
  to.wy += 2.5 * (f[0] * s - g[0]);
  to.wz -= 2.5 * f[0] * c;
  for (int k = 0; k < 2; k++) {
    to.nose[k] += f[k];
    to.slate[k] += g[k];
  }
  return to;
}

// The longest step, up to dp, in which no slip changes by more than half of itself. A slip that the shortest step
// could end counts as none: a step of any length handles a contact that sticks.
static double stride(const state* now, double c, double s, double mu_nose, double mu_slate, double dp) {
  const double slips[2] = {hypot(now->vx + now->wy * s - now->wz * c, -now->vy * s + now->wx),
                           hypot(now->vx - now->wy, now->vy + now->wx)};
  const double rates[2] = {3.5 * mu_nose + s, 3.5 * mu_slate * (s + mu_nose) + 1};
  double longest = dp;
  for (int k = 0; k < 2; k++) {
    const double steady = .5 * slips[k] / rates[k];
    if (steady > SHORTEST * dp) longest = fmin(longest, steady);
  }
  return longest;
}

static void impact(const cue_laws* laws, const double* own, const cue_cushion_impact* in, cue_cushion_impulse* out) {
  (void)laws;
  const double c = in->level, s = in->rise, e = in->restitution, R = in->radius, mu = in->friction, mu_slate = own[0];
  state now = {in->velocity[0], in->approach / c, R * in->spin[0], R * in->spin[1], R * in->spin[2], {0}, {0}};
  const double dp = (1 + e) * now.vy / c / STEPS;
  double total = 0, work = 0;
  for (int i = 0; i < 100 * STEPS && now.vy > 0; i++) {
    double part = stride(&now, c, s, mu, mu_slate, dp);
    state next = step(&now, c, s, mu, mu_slate, part);
    if (next.vy < 0) {
      part *= now.vy / (now.vy - next.vy);
      next = step(&now, c, s, mu, mu_slate, part);
      next.vy = fmin(next.vy, 0);
    }
    work += .5 * c * (now.vy + next.vy) * part;
    total += part;
    now = next;
  }
  double left = e * e * work;
  for (int i = 0; i < 100 * STEPS && left > 0; i++) {
    double part = stride(&now, c, s, mu, mu_slate, dp);
    state next = step(&now, c, s, mu, mu_slate, part);
    const double back = -.5 * c * (now.vy + next.vy) * part;
    if (back >= left) {
      // the speed grows steadily in a step: c dp (a t + (b - a) t^2 / 2) = left
      const double a = -now.vy, b = -next.vy, need = left / (c * part);
      part *= 2 * need / (a + sqrt(fmax(0, a * a + 2 * (b - a) * need)));
      next = step(&now, c, s, mu, mu_slate, part);
    }
    left = back >= left ? 0 : left - back;
    total += part;
    now = next;
  }
  out->nose[0] = -in->mass * total;
  for (int k = 0; k < 2; k++) {
    out->nose[1 + k] = in->mass * now.nose[k];
    out->slate[k] = in->mass * now.slate[k];
  }
}

static const cue_law_parameter parameters[] = {
    {"slate_friction", "1", .212, 0, .6, "between ball and slate during the impact"},
    {0},
};

CUE_CUSHION_LAW(mathavan2010, impact,
                .source = "Mathavan, Jackson and Parkin, Proc. IMechE C 224 (2010) 1863-1873",
                .description = "rigid nose with friction at the nose and at the slate, integrated over the impulse",
                .parameters = parameters, .dissipative = 1)
