// Laws on their own, without MuJoCo: for tests, diagrams and teaching. Axes as in laws/law.h.
#include <math.h>
#include <string.h>

#include "cue_kernel.h"

// Adds an impulse (3,) in local axes at `arm` from the centre to a planar motion; the slate keeps the height.
static void push(double mass, double radius, const double arm[3], const double p[3], double* velocity, double* spin) {
  const double inertia = .4 * mass * radius * radius;
  velocity[0] += p[0] / mass;
  velocity[1] += p[1] / mass;
  spin[0] += (arm[1] * p[2] - arm[2] * p[1]) / inertia;
  spin[1] += (arm[2] * p[0] - arm[0] * p[2]) / inertia;
  spin[2] += (arm[0] * p[1] - arm[1] * p[0]) / inertia;
}

// From the axes N, x, u to x, y, z.
static void level_axes(double level, double rise, const double in[3], double out[3]) {
  out[0] = in[1];
  out[1] = level * in[0] - rise * in[2];
  out[2] = rise * in[0] + level * in[2];
}

// The slip along x, u of the surface at N of a ball that moves with (vx, vy) and turns with w.
static void surface(const double* v, const double* w, double radius, double level, double rise, double slip[2]) {
  slip[0] = v[0] + radius * (w[1] * rise - w[2] * level);
  slip[1] = -v[1] * rise + radius * w[0];
}

// `count` impacts at a nose: velocity (count, 2) and spin (count, 3) before -> after; impulses on the ball (count, 3).
void cue_evaluate_cushion(const cue_laws* laws, int count, double mass, double radius, double tilt, double* velocity,
                          double* spin, double* nose, double* slate) {
  const cue_law* law = cue_chosen_law(laws, CUE_SLOT_CUSHION);
  const double level = cos(tilt), rise = sin(tilt);
  for (int i = 0; i < count; i++) {
    double *v = velocity + 2 * i, *w = spin + 3 * i;
    cue_cushion_impact in = {.mass = mass, .radius = radius, .level = level, .rise = rise, .incidence = v[1],
                             .approach = v[1] * level, .friction = laws->cushion_friction};
    cue_cushion_impulse out = {{0}, {0}};
    memcpy(in.velocity, v, sizeof in.velocity);
    memcpy(in.spin, w, sizeof in.spin);
    surface(v, w, radius, level, rise, in.slip);
    in.restitution = cue_cushion_restitution(laws, 0, v[1]);
    if (v[1] > 0) law->cushion(laws, laws->own[CUE_SLOT_CUSHION], &in, &out);
    const double at_nose[3] = {0, radius * level, radius * rise}, below[3] = {0, 0, -radius};
    level_axes(level, rise, out.nose, nose + 3 * i);
    slate[3 * i] = out.slate[0];
    slate[3 * i + 1] = out.slate[1];
    slate[3 * i + 2] = fmax(0, -nose[3 * i + 2]);
    push(mass, radius, at_nose, nose + 3 * i, v, w);
    push(mass, radius, below, slate + 3 * i, v, w);
  }
}

// `count` impacts of two balls, N level or tilted by what their radii differ: velocity (count, 2, 2), spin
// (count, 2, 3) before -> after; impulse on ball 1 (count, 3), friction of the slate on both (count, 2, 3).
void cue_evaluate_ball(const cue_laws* laws, int count, const double* mass, const double* radius, double* velocity,
                       double* spin, double* contact, double* slate) {
  const cue_law* law = cue_chosen_law(laws, CUE_SLOT_BALL);
  const double rise = (radius[1] - radius[0]) / (radius[0] + radius[1]), level = sqrt(1 - rise * rise);
  for (int i = 0; i < count; i++) {
    double *v = velocity + 4 * i, *w = spin + 6 * i, slip[2][2];
    cue_ball_impact in = {.mass = {mass[0], mass[1]}, .radius = {radius[0], radius[1]}, .level = level, .rise = rise,
                          .inverse_mass = 1 / mass[0] + 1 / mass[1], .approach = (v[1] - v[3]) * level,
                          .restitution = laws->ball_restitution};
    cue_ball_impulse out = {{0}, {{0}}};
    memcpy(in.velocity, v, sizeof in.velocity);
    memcpy(in.spin, w, sizeof in.spin);
    surface(v, w, radius[0], level, rise, slip[0]);
    surface(v + 2, w + 3, -radius[1], level, rise, slip[1]);
    in.slip[0] = slip[1][0] - slip[0][0];
    in.slip[1] = slip[1][1] - slip[0][1];
    if (in.approach > 0) law->ball(laws, laws->own[CUE_SLOT_BALL], &in, &out);
    double on[2][3];
    level_axes(level, rise, out.contact, on[1]);
    for (int k = 0; k < 3; k++) {
      on[0][k] = -on[1][k];
      contact[3 * i + k] = on[1][k];
    }
    for (int b = 0; b < 2; b++) {
      const double reach = b ? -radius[1] : radius[0];
      const double at_contact[3] = {0, reach * level, reach * rise}, below[3] = {0, 0, -radius[b]};
      double* under = slate + 6 * i + 3 * b;
      under[0] = out.slate[b][0];
      under[1] = out.slate[b][1];
      under[2] = fmax(0, -on[b][2]);
      push(mass[b], radius[b], at_contact, on[b], v + 2 * b, w + 3 * b);
      push(mass[b], radius[b], below, under, v + 2 * b, w + 3 * b);
    }
  }
}

// `count` balls on the cloth for a time each [s]: position (count, 2), velocity (count, 2), spin (count, 3). A field
// belongs to a table, of which nothing is known here: it is left out.
void cue_evaluate_cloth(const cue_laws* row, int count, double radius, const double* time, double* position,
                        double* velocity, double* spin) {
  const cue_layout nowhere = {.half_length = 1, .half_width = 1};
  cue_laws laws;
  cue_ready_laws(&nowhere, row, NULL, &laws);
  laws.uneven = 0;
  laws.roughest = 1;
  for (int i = 0; i < count; i++) {
    double *x = position + 2 * i, *v = velocity + 2 * i, *w = spin + 3 * i;
    cue_ball ball = {x[0], x[1], v[0], v[1], w[0], w[1], w[2]};
    cue_cloth(&ball, radius, &laws, time[i]);
    x[0] = ball.x;
    x[1] = ball.y;
    v[0] = ball.vx;
    v[1] = ball.vy;
    w[0] = ball.wx;
    w[1] = ball.wy;
    w[2] = ball.wz;
  }
}
