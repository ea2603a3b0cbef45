// Balls that touch before the impact: the blow runs through them as a wave, which no order of two-body impacts gets
// right. The contacts are therefore resolved on their own time scale, with frozen geometry: Hertzian springs that give
// back e^2 of their energy, and Coulomb friction. One pair alone returns the restitution e. (Compare Liu, Zhao and
// Brogliato, Proc. R. Soc. A 464, 2008, on multiple impacts.)
#include <math.h>
#include <string.h>

#include "cue_kernel.h"

// Substeps of the main contact's duration.
#define FINENESS 300
#define LONGEST 60  // durations

typedef struct {
  double vx, vy, w[3];
} motion;

static void cross(double* out, const double* a, const double* b) {
  out[0] = a[1] * b[2] - a[2] * b[1];
  out[1] = a[2] * b[0] - a[0] * b[2];
  out[2] = a[0] * b[1] - a[1] * b[0];
}

static double dot(const double* a, const double* b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

// Marks the ball-ball contacts that hang together with contact `seed`; returns how many.
int cue_grow_cluster(const cue_touch* touch, int count, int seed, uint8_t* member) {
  uint8_t in[CUE_MAX_BALLS] = {0};
  int size = 1, grew = 1;
  memset(member, 0, count);
  member[seed] = 1;
  in[touch[seed].a] = in[touch[seed].b] = 1;
  while (grew) {
    grew = 0;
    for (int c = 0; c < count; c++) {
      if (member[c] || touch[c].b < 0 || !(in[touch[c].a] || in[touch[c].b])) continue;
      member[c] = in[touch[c].a] = in[touch[c].b] = 1;
      size++;
      grew = 1;
    }
  }
  return size;
}

static void load(const cue_ball* balls, int n, motion* out) {
  for (int i = 0; i < n; i++) out[i] = (motion){balls[i].vx, balls[i].vy, {balls[i].wx, balls[i].wy, balls[i].wz}};
}

static void push(const cue_layout* layout, motion* state, int ball, double sign, const double* arm, const double* p) {
  const double m = layout->mass[ball], R = layout->radius[ball], turn = sign / (.4 * m * R * R);
  double t[3];
  cross(t, arm, p);
  state[ball].vx += sign * p[0] / m;
  state[ball].vy += sign * p[1] / m;
  for (int k = 0; k < 3; k++) state[ball].w[k] += turn * t[k];
}

// Velocity of the second body over the first at a contact, normal n from first to second.
static void relative(const cue_layout* layout, const motion* state, int first, int second, const double* n,
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

static double kinetic(const cue_layout* layout, const motion* state) {
  double sum = 0;
  for (int i = 0; i < layout->balls; i++) {
    const double R = layout->radius[i];
    sum += layout->mass[i] * (state[i].vx * state[i].vx + state[i].vy * state[i].vy + .4 * R * R * dot(state[i].w, state[i].w));
  }
  return .5 * sum;
}

// The impulses [N s] (count, 3) on the second body of every member contact.
void cue_cluster_impulse(const cue_layout* layout, const cue_laws* laws, const mjData* d, const cue_ball* balls,
                         const cue_touch* touch, const uint8_t* member, int count, double* impulse) {
  motion state[CUE_MAX_BALLS], initial[CUE_MAX_BALLS];
  double squeeze[CUE_MAX_TOUCHES] = {0};
  load(balls, layout->balls, state);
  memcpy(initial, state, sizeof state);
  double fastest = 0, lightest = INFINITY;
  for (int c = 0; c < count; c++) {
    if (!member[c]) continue;
    memset(impulse + 3 * c, 0, 3 * sizeof(double));
    fastest = fmax(fastest, touch[c].approach);
    const double ma = layout->mass[touch[c].a], mb = layout->mass[touch[c].b];
    lightest = fmin(lightest, ma * mb / (ma + mb));
  }
  // time unit: greatest squeeze / speed of the fastest contact; it lasts 2.94 of them (Johnson, Contact Mechanics)
  const double stiffness = 1.25 * lightest / sqrt(fastest), dt = 2.94 / FINENESS, slow = .003 * fastest;
  const double e2 = laws->ball_restitution * laws->ball_restitution;
  for (int step = 0; step < FINENESS * LONGEST; step++) {
    motion next[CUE_MAX_BALLS];
    memcpy(next, state, sizeof state);
    int busy = 0;
    for (int c = 0; c < count; c++) {
      if (!member[c]) continue;
      const mjtNum* frame = d->contact[touch[c].contact].frame;
      const int first = touch[c].a_first ? touch[c].a : touch[c].b, second = touch[c].a_first ? touch[c].b : touch[c].a;
      double v[3], slip[3], p[3], arm[3];
      relative(layout, state, first, second, frame, v);
      const double vn = dot(v, frame);
      squeeze[c] = fmax(squeeze[c] - vn * dt, 0);
      if (squeeze[c] > 0 || vn < -1e-9 * fastest) busy = 1;
      if (squeeze[c] == 0) continue;
      const double force = stiffness * squeeze[c] * sqrt(squeeze[c]) * (vn > 0 ? e2 : 1);
      for (int k = 0; k < 3; k++) slip[k] = v[k] - vn * frame[k];
      const double speed = sqrt(dot(slip, slip));
      const double mu = cue_ball_friction(laws, speed);
      for (int k = 0; k < 3; k++) p[k] = force * dt * (frame[k] - mu * slip[k] / fmax(speed, slow));
      for (int k = 0; k < 3; k++) impulse[3 * c + k] += p[k];
      for (int k = 0; k < 3; k++) arm[k] = layout->radius[first] * frame[k];
      push(layout, next, first, -1, arm, p);
      for (int k = 0; k < 3; k++) arm[k] = -layout->radius[second] * frame[k];
      push(layout, next, second, 1, arm, p);
    }
    memcpy(state, next, sizeof state);
    if (!busy) break;
  }
  // the integration's own error must not add energy: shorten all impulses if it did
  const double had = kinetic(layout, initial), has = kinetic(layout, state);
  if (has <= had) return;
  motion change[CUE_MAX_BALLS];
  for (int i = 0; i < layout->balls; i++) {
    change[i].vx = state[i].vx - initial[i].vx;
    change[i].vy = state[i].vy - initial[i].vy;
    for (int k = 0; k < 3; k++) change[i].w[k] = state[i].w[k] - initial[i].w[k];
  }
  const double quadratic = kinetic(layout, change), linear = has - had - quadratic;
  const double scale = quadratic > 0 ? fmin(1, fmax(0, -linear / quadratic)) : 1;
  for (int c = 0; c < count; c++) {
    if (member[c]) mju_scl3(impulse + 3 * c, impulse + 3 * c, scale);
  }
}

// Contact without rebound or friction: balls that lean on others or on a cushion, and the end of an exchange that finds
// none. Afterwards no contact approaches any more. Gauss-Seidel sweeps of two-body impulses; each takes energy away.
void cue_press_impulse(const cue_layout* layout, const mjData* d, const cue_ball* balls, const cue_touch* touch,
                     int count, double* impulse) {
  motion state[CUE_MAX_BALLS];
  double total[CUE_MAX_TOUCHES] = {0};
  load(balls, layout->balls, state);
  memset(impulse, 0, 3 * count * sizeof(double));
  for (int sweep = 0; sweep < 400; sweep++) {
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
    if (worst < 1e-9) break;
  }
}
