// When do two bodies meet next, on the balls' true paths? The distance D to a point or to a convex set changes at a known
// rate, and its second derivative is at least -A, A a bound of the relative acceleration (turning round the other body
// only adds to D). So D + D't - A t^2/2 never exceeds the distance to come: going on to where it vanishes never passes a
// contact, and repeated from there it closes in on the first one as Newton's method does.
#include <math.h>

#include "cue_kernel.h"

// A gap that counts as reached [m], far below CUE_TOUCHING.
#define REACHED 1e-9
#define LONGEST_SEARCH 60

typedef struct {
  double gap, rate;  // [m], [m/s]
} nearness;

static nearness to_point(double x, double y, double vx, double vy, double reach) {
  const double distance = sqrt(x * x + y * y);
  return (nearness){distance - reach, distance > 0 ? (x * vx + y * vy) / distance : 0};
}

static nearness to_ball(const cue_ball* p, const cue_ball* q, double reach) {
  return to_point(p->x - q->x, p->y - q->y, p->vx - q->vx, p->vy - q->vy, reach);
}

static nearness to_segment(const cue_ball* p, const double* s, double reach) {
  const double dx = s[2] - s[0], dy = s[3] - s[1], px = p->x - s[0], py = p->y - s[1];
  const double along = fmin(fmax((px * dx + py * dy) / (dx * dx + dy * dy), 0), 1);
  return to_point(px - along * dx, py - along * dy, p->vx, p->vy, reach);
}

// The first time at which gap + rate t - bound t^2/2 is zero.
static double earliest(nearness near, double bound) {
  const double gap = fmax(near.gap, 0);
  if (bound <= 0) return near.rate < 0 ? gap / -near.rate : INFINITY;
  const double root = sqrt(near.rate * near.rate + 2 * bound * gap);
  return near.rate < 0 ? 2 * gap / (root - near.rate) : (near.rate + root) / bound;
}

typedef struct {
  const cue_layout* layout;
  cue_path* paths;
  const double* bounds;
  double slow;
  cue_meeting found;
} search;

// Refines the meeting of ball i with ball j (>= 0), or with a fixed body: a segment (line not NULL), or a pocket's point.
static void refine(search* s, int i, int j, const double* line, const double* point, double reach, nearness near) {
  double t = 0, bound = s->bounds[i] + (j >= 0 ? s->bounds[j] : 0);
  cue_ball p, q;
  for (int k = 0; k < LONGEST_SEARCH; k++) {
    t += earliest(near, bound);
    if (t >= s->found.time) return;
    cue_path_at(s->paths + i, t, &p);
    bound = cue_cloth_bound(&p, s->layout->radius[i], s->paths[i].laws);
    if (j >= 0) {
      cue_path_at(s->paths + j, t, &q);
      bound += cue_cloth_bound(&q, s->layout->radius[j], s->paths[j].laws);
      near = to_ball(&p, &q, reach);
    } else if (line) {
      near = to_segment(&p, line, reach);
    } else {
      near = to_point(p.x - point[0], p.y - point[1], p.vx, p.vy, reach);
    }
    if (near.gap <= REACHED && near.rate < 0) {
      s->found = (cue_meeting){t, 1, s->found.leaning};
      return;
    }
  }
  s->found = (cue_meeting){t, 0, s->found.leaning};  // so far it is safe: the search goes on from there
}

// Looks at one pair as it stands; returns whether it must be refined.
static int consider(search* s, nearness near, double bound) {
  if (near.gap <= CUE_MARGIN && fabs(near.rate) <= s->slow) {
    s->found.leaning = 1;  // pressing or grazing: left to the contact
    return 0;
  }
  if (near.gap <= CUE_TOUCHING && near.rate < 0) {
    s->found = (cue_meeting){0, 1, s->found.leaning};
    return 0;
  }
  const double t = s->found.time;
  return near.gap + t * (near.rate - .5 * bound * t) < 0;  // a concave curve: if it is positive then, it was all along
}

// Whether a point, relative to a place, may come within `reach` of it.
static int may_reach(double x, double y, double reach) { return x * x + y * y < reach * reach; }

// Finds the next impact or drop's edge within `horizon`, else the horizon.
cue_meeting cue_next_meeting(const cue_layout* layout, cue_path* paths, const uint8_t* moves, const int32_t* in_play,
                             const double* over, double horizon) {
  const int n = layout->balls;
  double bounds[CUE_MAX_BALLS], travel[CUE_MAX_BALLS] = {0};  // travel: as far as a ball can get [m]
  search s = {layout, paths, bounds, CUE_SLOW_APPROACH, {horizon, 0, 0}};
  for (int i = 0; i < n; i++) {
    bounds[i] = moves[i] ? cue_cloth_bound(paths[i].node, layout->radius[i], paths[i].laws) : 0;
    if (!moves[i]) continue;
    const cue_ball* p = paths[i].node;
    travel[i] = (sqrt(p->vx * p->vx + p->vy * p->vy) + .5 * bounds[i] * horizon) * horizon + CUE_MARGIN;
  }
  for (int i = 0; i < n; i++) {
    if (!moves[i]) continue;
    const cue_ball* p = paths[i].node;
    for (int j = 0; j < n; j++) {
      if (j == i || !in_play[j] || (j < i && moves[j])) continue;
      const cue_ball* q = paths[j].node;
      const double reach = 2 * sqrt(layout->radius[i] * layout->radius[j]);
      if (!may_reach(p->x - q->x, p->y - q->y, reach + travel[i] + travel[j])) continue;
      const nearness near = to_ball(p, q, reach);
      if (consider(&s, near, bounds[i] + bounds[j])) refine(&s, i, j, NULL, NULL, reach, near);
    }
    const double away = layout->radius[i] + travel[i] + layout->inset;  // so far from the nose lines no cushion is met
    const int inside = fabs(p->x) < layout->half_length - away && fabs(p->y) < layout->half_width - away;
    for (int k = 0; k < layout->segments && !inside; k++) {
      const double *line = layout->segment + 4 * k, reach = layout->reach[k * n + i], near_by = reach + travel[i];
      if (p->x < fmin(line[0], line[2]) - near_by || p->x > fmax(line[0], line[2]) + near_by ||
          p->y < fmin(line[1], line[3]) - near_by || p->y > fmax(line[1], line[3]) + near_by) {
        continue;
      }
      const nearness near = to_segment(p, line, reach);
      if (consider(&s, near, bounds[i])) refine(&s, i, -1, line, NULL, reach, near);
    }
    s.slow = -1;  // a pocket takes whatever comes, however slowly
    for (int k = 0; k < layout->pockets && over[i] == 0; k++) {
      const double* hole = layout->pocket + 4 * k;
      if (!may_reach(p->x - hole[0], p->y - hole[1], hole[2] + travel[i])) continue;
      const nearness near = to_point(p->x - hole[0], p->y - hole[1], p->vx, p->vy, hole[2]);
      if (consider(&s, near, bounds[i])) refine(&s, i, -1, NULL, hole, hole[2], near);
    }
    s.slow = CUE_SLOW_APPROACH;
    if (s.found.time <= 0) break;
  }
  return s.found;
}
