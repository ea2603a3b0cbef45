// S. Mathavan, M. R. Jackson and R. M. Parkin, Numerical simulations of the frictional collisions of solid balls on a
// rough surface, Sports Engineering 17 (2014) 227-237. The impact between two balls is integrated over its normal
// impulse, with restitution by work (e^2) and Coulomb friction between the balls; friction that presses one of them
// down makes the slate rub at it meanwhile. The other one is lifted, as far as it can be, and feels no slate.
#include <math.h>

#include "friction.h"
#include "law.h"

#define STEPS 24  // per estimated impulse
#define ROUNDS 3  // of the three frictions that act on each other

typedef struct {
  double v[2][2], w[2][3];  // w times R: speeds of the surface [m/s]
} state;

typedef struct {
  double normal, contact[2], slate[2][2];
} push;

static state apply(const cue_ball_impact* in, const state* from, const push* p) {
  const double c = in->level, s = in->rise;
  state to = *from;
  for (int b = 0; b < 2; b++) {
    const double m = in->mass[b], sign = b ? 1 / m : -1 / m, *g = p->slate[b];
    to.v[b][0] += sign * p->contact[0] + g[0] / m;
    to.v[b][1] += sign * (c * p->normal - s * p->contact[1]) + g[1] / m;
    to.w[b][0] -= 2.5 / m * (p->contact[1] - g[1]);
    to.w[b][1] -= 2.5 / m * (p->contact[0] * s + g[0]);
    to.w[b][2] += 2.5 / m * p->contact[0] * c;
  }
  return to;
}

static double approach(const cue_ball_impact* in, const state* at) { return in->level * (at->v[0][1] - at->v[1][1]); }

static void contact_slip(const cue_ball_impact* in, const state* at, double slip[2]) {
  const double c = in->level, s = in->rise;
  slip[0] = at->v[1][0] - at->v[0][0] - s * (at->w[0][1] + at->w[1][1]) + c * (at->w[0][2] + at->w[1][2]);
  slip[1] = s * (at->v[0][1] - at->v[1][1]) - at->w[0][0] - at->w[1][0];
}

static void slate_slip(const state* at, int b, double slip[2]) {
  slip[0] = at->v[b][0] - at->w[b][1];
  slip[1] = at->v[b][1] + at->w[b][0];
}

// One friction, given the others: f is its place in p.
static void settle(const cue_ball_impact* in, const state* from, const push* p, int place, const double k[2],
                   double limit, double* f) {
  const state to = apply(in, from, p);
  double slip[2], then[2];
  if (place < 2) {
    slate_slip(from, place, slip);
    slate_slip(&to, place, then);
  } else {
    contact_slip(in, from, slip);
    contact_slip(in, &to, then);
  }
  for (int i = 0; i < 2; i++) then[i] -= k[i] * f[i];
  cue_rub(slip, then, k, limit, f);
}

static push step(const cue_ball_impact* in, const state* from, double mu, double mu_slate, double dp) {
  const double c = in->level, s = in->rise, k[2] = {3.5 * in->inverse_mass, (2.5 + s * s) * in->inverse_mass};
  push p = {.normal = dp};
  for (int round = 0; round < ROUNDS; round++) {
    settle(in, from, &p, 2, k, mu * dp, p.contact);
    const double up = s * dp + c * p.contact[1];  // on ball 1
    for (int b = 0; b < 2; b++) {
      const double k_slate[2] = {3.5 / in->mass[b], 3.5 / in->mass[b]};
      settle(in, from, &p, b, k_slate, mu_slate * fmax(0, b ? -up : up), p.slate[b]);
    }
  }
  return p;
}

static void impact(const cue_laws* laws, const double* own, const cue_ball_impact* in, cue_ball_impulse* out) {
  state now;
  for (int b = 0; b < 2; b++) {
    for (int i = 0; i < 2; i++) now.v[b][i] = in->velocity[b][i];
    for (int i = 0; i < 3; i++) now.w[b][i] = in->radius[b] * in->spin[b][i];
  }
  const double e = in->restitution, dp = (1 + e) * in->approach / in->inverse_mass / STEPS;
  double work = 0, left = 0;
  int back = 0;
  for (int i = 0; i < 20 * STEPS; i++) {
    double slip[2], part = dp;
    contact_slip(in, &now, slip);
    const double mu = cue_ball_friction(laws, hypot(slip[0], slip[1])), before = approach(in, &now);
    push p = step(in, &now, mu, own[0], part);
    state next = apply(in, &now, &p);
    double after = approach(in, &next), done = .5 * (before + after) * part;
    int ends = 0;
    if (!back && after <= 0) {
      part *= before / (before - after);
      ends = 1;
    } else if (back && -done >= left) {
      const double a = -before, b = -after, need = left / part;
      part *= 2 * need / (a + sqrt(fmax(0, a * a + 2 * (b - a) * need)));
      ends = 1;
    }
    if (ends) {
      p = step(in, &now, mu, own[0], part);
      next = apply(in, &now, &p);
      after = approach(in, &next);
      done = .5 * (before + after) * part;
    }
    out->contact[0] += p.normal;
    for (int k = 0; k < 2; k++) {
      out->contact[1 + k] += p.contact[k];
      for (int b = 0; b < 2; b++) out->slate[b][k] += p.slate[b][k];
    }
    now = next;
    if (back) {
      left += done;
      if (ends) return;
    } else {
      work += done;
      if (ends) {
        back = 1;
        left = e * e * work;
        if (left <= 0) return;
      }
    }
  }
}

static const cue_law_parameter parameters[] = {
    {"slate_friction", "1", .21, 0, .6, "between ball and slate during the impact"},
    {0},
};

CUE_BALL_LAW(mathavan2014, impact,
             .source = "Mathavan, Jackson and Parkin, Sports Engineering 17 (2014) 227-237",
             .description = "friction between the balls and at the slate, integrated over the impulse",
             .parameters = parameters, .dissipative = 1)
