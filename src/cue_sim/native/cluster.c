// Balls that touch, or nearly do, before the impact: the blow runs through them as a wave, which no order of two-body
// impacts gets right. The contacts are therefore resolved on their own time scale: Hertzian springs that give back e^2
// of their energy, and Coulomb friction. One pair alone returns the restitution e. A pair with a gap joins when the gap
// closes while others are still squeezed, with the normal of that moment: as gaps grow, the blow goes over into impacts
// in order. Afterwards the balls are where they were: for the rest of the simulation a blow takes no time.
// (Compare Liu, Zhao and Brogliato, Proc. R. Soc. A 464, 2008, on multiple impacts.)
#include <math.h>
#include <string.h>

#include "cue_kernel.h"
#include "motion.h"

// Phenolic resin: Young's modulus [Pa] and Poisson's ratio (Crown, on collisions of phenolic resin spheres, after
// Landau and Lifshitz, Theory of Elasticity, sec. 9). Only which gaps count as nearly touching depends on them.
#define YOUNG 5.84e9
#define POISSON .34
// Hertz: a contact lasts for so many times greatest squeeze over speed (Johnson, Contact Mechanics, 1985).
#define DURATION 2.94
// Substeps of the first contact's duration, and how many durations a blow may take.
#define FINENESS 300
#define LONGEST 60
// While it is struck a ball travels by half the duration times its speed: pairs twice as far apart may join [squeezes].
#define NEIGHBOURHOOD DURATION
// What is struck is let close its last gap, for so long at most [s]; what then touches but for rounding [m] touches.
#define LAST_MOMENT 1e-6
#define ROUNDING 1e-10

static double kinetic(const cue_layout* layout, const motion* state) {
  double sum = 0;
  for (int i = 0; i < layout->balls; i++) {
    const double R = layout->radius[i];
    const double travel = state[i].vx * state[i].vx + state[i].vy * state[i].vy;
    sum += layout->mass[i] * (travel + .4 * R * R * dot(state[i].w, state[i].w));
  }
  return .5 * sum;
}

// Hertz's stiffness of a pair [N/m^1.5]: of its force per squeeze^(3/2).
static double stiffness_of(const cue_layout* layout, int a, int b) {
  const double Ra = layout->radius[a], Rb = layout->radius[b];
  return 2. / 3 * YOUNG / (1 - POISSON * POISSON) * sqrt(Ra * Rb / (Ra + Rb));
}

static double greatest_squeeze(const cue_layout* layout, int a, int b, double approach) {
  const double ma = layout->mass[a], mb = layout->mass[b];
  return pow(1.25 * ma * mb / (ma + mb) * approach * approach / stiffness_of(layout, a, b), .4);
}

static double gap_of(const cue_layout* layout, const motion* state, int a, int b) {
  const double dx = state[b].x - state[a].x, dy = state[b].y - state[a].y;
  return sqrt(dx * dx + dy * dy) - 2 * sqrt(layout->radius[a] * layout->radius[b]);
}

// The balls of a link touch from now on, with the normal of this moment.
static void meet(const cue_layout* layout, const motion* state, cue_link* link, double squeeze) {
  const double Ra = layout->radius[link->a], Rb = layout->radius[link->b];
  const double dx = state[link->b].x - state[link->a].x, dy = state[link->b].y - state[link->a].y;
  const double level = 2 * sqrt(Ra * Rb) / ((Ra + Rb) * sqrt(dx * dx + dy * dy));
  link->normal[0] = level * dx;
  link->normal[1] = level * dy;
  link->normal[2] = (Rb - Ra) / (Ra + Rb);
  link->squeeze = squeeze;
  link->met = 1;
}

static void drift(motion* state, int n, double time) {
  for (int i = 0; i < n; i++) {
    state[i].x += state[i].vx * time;
    state[i].y += state[i].vy * time;
  }
}

// Collects the pairs that hang together with the one that is struck, which comes first, over gaps that the blow may
// close.
static int gather(const cue_layout* layout, const int32_t* in_play, const motion* state, const cue_touch* struck,
                  cue_link* links, int capacity) {
  const int first = struck->a, second = struck->b;
  const double reach = NEIGHBOURHOOD * greatest_squeeze(layout, first, second, struck->approach);
  uint8_t found[CUE_MAX_BALLS] = {0}, asked[CUE_MAX_BALLS] = {0};
  int queue[CUE_MAX_BALLS] = {first, second}, size = 2, count = 1;
  found[first] = found[second] = 1;
  links[0] = (cue_link){.a = first, .b = second, .stiffness = stiffness_of(layout, first, second)};
  meet(layout, state, links, 0);
  for (int k = 0; k < size; k++) {
    const int i = queue[k];
    asked[i] = 1;
    for (int j = 0; j < layout->balls && count < capacity; j++) {
      if (asked[j] || !in_play[j] || (i == first && j == second)) continue;
      const double gap = gap_of(layout, state, i, j);
      if (gap > reach) continue;
      cue_link* link = links + count++;
      *link = (cue_link){.a = i < j ? i : j, .b = i < j ? j : i, .stiffness = stiffness_of(layout, i, j)};
      if (gap <= ROUNDING) meet(layout, state, link, 0);
      if (!found[j]) queue[size++] = j;
      found[j] = 1;
    }
  }
  return count;
}

// Squeezes a link for dt and adds its impulse to the balls; returns whether it is squeezed.
static int squeeze(const cue_layout* layout, const cue_laws* laws, const motion* state, motion* next, cue_link* link,
                   double drifted, double dt, double slow) {
  if (!link->met) {  // not yet
    const double gap = gap_of(layout, state, link->a, link->b);
    if (gap >= 0) return 0;
    meet(layout, state, link, -gap);
    drifted = 0;
  }
  double v[3], slip[3], p[3], arm[3];
  const double* n = link->normal;
  relative(layout, state, link->a, link->b, n, v);
  const double opening = dot(v, n);
  link->squeeze -= opening * drifted;
  if (link->squeeze <= 0) return 0;
  const double e2 = laws->ball_restitution * laws->ball_restitution;
  const double force = link->stiffness * link->squeeze * sqrt(link->squeeze) * (opening > 0 ? e2 : 1);
  for (int k = 0; k < 3; k++) slip[k] = v[k] - opening * n[k];
  const double speed = sqrt(dot(slip, slip)), mu = cue_ball_friction(laws, speed);
  for (int k = 0; k < 3; k++) p[k] = force * dt * (n[k] - mu * slip[k] / fmax(speed, slow));
  for (int k = 0; k < 3; k++) link->impulse[k] += p[k];
  for (int k = 0; k < 3; k++) arm[k] = layout->radius[link->a] * n[k];
  push(layout, next, link->a, -1, arm, p);
  for (int k = 0; k < 3; k++) arm[k] = -layout->radius[link->b] * n[k];
  push(layout, next, link->b, 1, arm, p);
  return 1;
}

// The integration's own error must not add energy: returns the share of all impulses that adds none.
static double harmless_share(const cue_layout* layout, const motion* before, const motion* after) {
  const double had = kinetic(layout, before), has = kinetic(layout, after);
  if (has <= had) return 1;
  motion change[CUE_MAX_BALLS];
  for (int i = 0; i < layout->balls; i++) {
    change[i].vx = after[i].vx - before[i].vx;
    change[i].vy = after[i].vy - before[i].vy;
    for (int k = 0; k < 3; k++) change[i].w[k] = after[i].w[k] - before[i].w[k];
  }
  const double quadratic = kinetic(layout, change), linear = has - had - quadratic;
  return quadratic > 0 ? fmin(1, fmax(0, -linear / quadratic)) : 1;
}

int cue_cluster(const cue_layout* layout, const cue_laws* laws, const int32_t* in_play, const cue_ball* balls,
                const cue_touch* struck, cue_link* links, int capacity) {
  motion state[CUE_MAX_BALLS] = {0}, initial[CUE_MAX_BALLS], next[CUE_MAX_BALLS];
  const int n = layout->balls;
  load(balls, n, state);
  drift(state, n, mju_clip(gap_of(layout, state, struck->a, struck->b) / struck->approach, -LAST_MOMENT, LAST_MOMENT));
  const int count = gather(layout, in_play, state, struck, links, capacity);
  if (count == 1) return 1;
  memcpy(initial, state, n * sizeof *state);
  const double unit = greatest_squeeze(layout, struck->a, struck->b, struck->approach) / struck->approach;
  const double dt = DURATION / FINENESS * unit, slow = .003 * struck->approach;
  int busy = 1;
  for (int step = 0; busy && step < FINENESS * LONGEST; step++) {
    const double drifted = step == 0 ? .5 * dt : dt;  // places half a step after velocities: of second order
    drift(state, n, drifted);
    memcpy(next, state, n * sizeof *state);
    busy = 0;
    for (int c = 0; c < count; c++) busy |= squeeze(layout, laws, state, next, links + c, drifted, dt, slow);
    memcpy(state, next, n * sizeof *state);
  }
  const double share = harmless_share(layout, initial, state);
  int acting = 0;
  for (int c = 0; c < count; c++) {
    mju_scl3(links[c].impulse, links[c].impulse, share);
    if (mju_norm3(links[c].impulse) > 0) links[acting++] = links[c];
  }
  return acting;
}

void cue_link_pushes(const cue_layout* layout, const cue_link* link, cue_ball* balls) {
  for (int side = 0; side < 2; side++) {
    const int i = side ? link->b : link->a;
    const double sign = side ? 1 : -1, m = layout->mass[i], R = layout->radius[i], *p = link->impulse;
    double turn[3];
    cross(turn, link->normal, p);  // the arm is sign * -R n
    balls[i].vx += sign * p[0] / m;
    balls[i].vy += sign * p[1] / m;
    balls[i].wx -= turn[0] / (.4 * m * R);
    balls[i].wy -= turn[1] / (.4 * m * R);
    balls[i].wz -= turn[2] / (.4 * m * R);
  }
}
