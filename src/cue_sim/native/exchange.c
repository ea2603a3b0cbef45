// Which contacts act now, in which order, and which of them are blows.
#include <math.h>
#include <string.h>

#include "cue_kernel.h"

// A slow hit [m/s] is one if the pair has not touched for so long [s].
#define SLOWEST_HIT 1e-5
#define SERIES 2.5e-2

void cue_forget_contacts(cue_contacts* known, const cue_layout* layout) {
  known->balls = layout->balls;
  for (int k = 0; k < known->balls * (known->balls + layout->segments); k++) known->time[k] = -INFINITY;
}

double* cue_last_contact(cue_contacts* known, const cue_touch* touch) {
  const int n = known->balls, a = touch->a, b = touch->b;
  if (b < 0) return known->time + n * n + (-1 - b) * n + a;
  return known->time + (a < b ? a * n + b : b * n + a);
}

int cue_is_impact(cue_contacts* known, const cue_touch* touch, double now) {
  if (touch->approach > CUE_SLOW_APPROACH) return 1;
  return touch->approach > SLOWEST_HIT && now - *cue_last_contact(known, touch) > SERIES;
}

static int fastest(const cue_touch* touches, const uint8_t* waiting, int count) {
  int seed = -1;
  for (int c = 0; c < count; c++) {
    if (waiting[c] && (seed < 0 || touches[c].approach > touches[seed].approach)) seed = c;
  }
  return seed;
}

static int is_busy(const uint8_t* used, const cue_touch* touch) {
  return used[touch->a] || (touch->b >= 0 && used[touch->b]);
}

void cue_exchange(const cue_layout* layout, const cue_laws* laws, const mjData* d, const cue_ball* balls,
                  const cue_touch* touches, int count, uint8_t* active, cue_contacts* known, double* impulses,
                  cue_ball* end) {
  uint8_t member[CUE_MAX_TOUCHES], waiting[CUE_MAX_TOUCHES], used[CUE_MAX_BALLS] = {0};
  memcpy(waiting, active, count);
  memset(active, 0, count);
  for (int seed; (seed = fastest(touches, waiting, count)) >= 0;) {
    waiting[seed] = 0;
    memset(member, 0, count);
    member[seed] = 1;
    const int elastic = cue_is_impact(known, touches + seed, d->time);
    const int size = elastic && touches[seed].b >= 0 ? cue_grow_cluster(touches, count, seed, member) : 1;
    int busy = 0;
    for (int c = 0; c < count; c++) busy |= member[c] && is_busy(used, touches + c);
    if (busy) continue;
    if (size > 1) {
      cue_cluster_impulse(layout, laws, d, balls, touches, member, count, impulses);
    } else {
      cue_single_impulse(layout, laws, d, balls, touches + seed, elastic, impulses + 3 * seed, end);
    }
    for (int c = 0; c < count; c++) {
      if (!member[c]) continue;
      waiting[c] = 0;
      active[c] = mju_norm3(impulses + 3 * c) > 0;
      used[touches[c].a] = 1;
      if (touches[c].b >= 0) used[touches[c].b] = 1;
    }
  }
}
