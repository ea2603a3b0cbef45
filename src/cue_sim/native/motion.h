// Vectors, and the balls as bodies that contacts push.
#ifndef CUE_MOTION_H_
#define CUE_MOTION_H_

#include <math.h>

#include "cue_kernel.h"

typedef struct {
  double x, y, vx, vy, w[3];
} motion;

static inline void cross(double* out, const double* a, const double* b) {
  out[0] = a[1] * b[2] - a[2] * b[1];
  out[1] = a[2] * b[0] - a[0] * b[2];
  out[2] = a[0] * b[1] - a[1] * b[0];
}

static inline double dot(const double* a, const double* b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

static inline void load(const cue_ball* balls, int n, motion* out) {
  for (int i = 0; i < n; i++) {
    const cue_ball* b = balls + i;
    out[i] = (motion){b->x, b->y, b->vx, b->vy, {b->wx, b->wy, b->wz}};
  }
}

// Adds sign times the impulse p, which acts at `arm` from the centre.
static inline void push(const cue_layout* layout, motion* state, int ball, double sign, const double* arm,
                        const double* p) {
  const double m = layout->mass[ball], R = layout->radius[ball], turn = sign / (.4 * m * R * R);
  double t[3];
  cross(t, arm, p);
  state[ball].vx += sign * p[0] / m;
  state[ball].vy += sign * p[1] / m;
  for (int k = 0; k < 3; k++) state[ball].w[k] += turn * t[k];
}

// Velocity of the second body (negative: a fixed one) over the first at a contact, normal n from first to second.
static inline void relative(const cue_layout* layout, const motion* state, int first, int second, const double* n,
                            double* out) {
  const double* wf = state[first].w;
  double arm[3], t[3];
  for (int k = 0; k < 3; k++) arm[k] = layout->radius[first] * n[k];
  cross(t, wf, arm);
  out[0] = -state[first].vx - t[0];
  out[1] = -state[first].vy - t[1];
  out[2] = -t[2];
  if (second < 0) return;
  for (int k = 0; k < 3; k++) arm[k] = -layout->radius[second] * n[k];
  cross(t, state[second].w, arm);
  out[0] += state[second].vx + t[0];
  out[1] += state[second].vy + t[1];
  out[2] += t[2];
}

#endif  // CUE_MOTION_H_
