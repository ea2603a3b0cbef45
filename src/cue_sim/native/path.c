// Where a ball will be while nothing but the cloth acts on it. The law's closed form reaches any time in one call where
// every phase has constant acceleration. A slope, and rolling friction that depends on speed or place, change it on the
// way: there the law, which holds it for the length of a call, is called in short pieces from nodes that are kept, and
// extrapolated from whole and half pieces to the second order.
#include <math.h>

#include "cue_kernel.h"

// Pieces are this share of the largest step, so that refining the step refines them too, but not shorter than that [s].
#define SHARE 8
#define SHORTEST_PIECE 1e-3

void cue_path_begin(cue_path* path, const cue_ball* ball, double radius, const cue_laws* laws, double largest_step) {
  path->node[0] = *ball;
  path->filled = 1;
  path->radius = radius;
  path->laws = laws;
  path->spacing = INFINITY;
  if (!cue_cloth_exact(laws)) path->spacing = fmax(largest_step / SHARE, SHORTEST_PIECE);
}

static void piece(const cue_path* path, double h, cue_ball* ball) {
  if (isinf(path->spacing)) {
    cue_cloth(ball, path->radius, path->laws, h);
    return;
  }
  cue_ball whole = *ball;
  cue_cloth(&whole, path->radius, path->laws, h);
  cue_cloth(ball, path->radius, path->laws, .5 * h);
  cue_cloth(ball, path->radius, path->laws, .5 * h);
  ball->x += ball->x - whole.x;
  ball->y += ball->y - whole.y;
  ball->vx += ball->vx - whole.vx;
  ball->vy += ball->vy - whole.vy;
  ball->wx += ball->wx - whole.wx;
  ball->wy += ball->wy - whole.wy;
}

// The ball at t [s] after the path's begin.
void cue_path_at(cue_path* path, double t, cue_ball* out) {
  int k = 0;
  if (t > path->spacing) {
    k = (int)fmin(t / path->spacing, CUE_PATH_NODES - 1);
    for (; path->filled <= k; path->filled++) {
      cue_ball* next = path->node + path->filled;
      *next = next[-1];
      piece(path, path->spacing, next);
    }
    t -= k * path->spacing;
  }
  *out = path->node[k];
  piece(path, t, out);
}

double cue_all_rest(cue_path* paths, const uint8_t* moves, int n, double h) {
  cue_ball ball;
  for (int i = 0; i < n; i++) {
    if (!moves[i]) continue;
    cue_path_at(paths + i, h, &ball);
    if (!cue_at_rest(&ball)) return INFINITY;
  }
  double latest = 0;
  for (int i = 0; i < n; i++) {
    if (!moves[i]) continue;
    cue_path_at(paths + i, latest, &ball);
    if (cue_at_rest(&ball)) continue;
    double low = latest, high = h;
    while (high - low > 1e-12 * (1 + high)) {
      const double middle = .5 * (low + high);
      cue_path_at(paths + i, middle, &ball);
      if (cue_at_rest(&ball)) {
        high = middle;
      } else {
        low = middle;
      }
    }
    latest = high;
  }
  return latest;
}
