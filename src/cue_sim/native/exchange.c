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

static int is_used(const uint8_t* used, int a, int b) { return used[a] || (b >= 0 && used[b]); }

static void use(uint8_t* used, int a, int b) {
  used[a] = 1;
  if (b >= 0) used[b] = 1;
}

// Hands the impulses of a cluster to its contacts, or to the balls; returns the number of touches with those added.
static int hand_out(const cue_layout* layout, const cue_link* links, int size, cue_touch* touches, int count, int all,
                    uint8_t* active, double* impulses, cue_ball* end) {
  for (int k = 0; k < size; k++) {
    const cue_link* link = links + k;
    int c = 0;
    while (c < count && (touches[c].a != link->a || touches[c].b != link->b)) c++;
    if (c == count) {
      cue_link_pushes(layout, link, end);
      if (all == CUE_MAX_TOUCHES) continue;  // pushed, though not named
      c = all++;
      touches[c] = (cue_touch){-1, link->a, link->b, 1, 0, 0};
    }
    active[c] = 1;
    memcpy(impulses + 3 * c, link->impulse, sizeof link->impulse);
  }
  return all;
}

int cue_exchange(const cue_layout* layout, const cue_laws* laws, const mjData* d, const int32_t* in_play,
                 const cue_ball* balls, cue_touch* touches, int count, uint8_t* active, cue_contacts* known,
                 double* impulses, cue_ball* end) {
  cue_link links[CUE_MAX_LINKS];
  uint8_t waiting[CUE_MAX_TOUCHES], used[CUE_MAX_BALLS] = {0};
  int all = count;
  memcpy(waiting, active, count);
  memset(active, 0, count);
  for (int seed; (seed = fastest(touches, waiting, count)) >= 0;) {
    const cue_touch* struck = touches + seed;
    waiting[seed] = 0;
    if (is_used(used, struck->a, struck->b)) continue;
    const int elastic = cue_is_impact(known, struck, d->time);
    int size = 1;
    if (elastic && struck->b >= 0) size = cue_cluster(layout, laws, in_play, balls, struck, links, CUE_MAX_LINKS);
    if (size > 1) {
      int busy = 0;
      for (int k = 0; k < size; k++) busy |= is_used(used, links[k].a, links[k].b);
      if (busy) continue;
      all = hand_out(layout, links, size, touches, count, all, active, impulses, end);
      for (int k = 0; k < size; k++) use(used, links[k].a, links[k].b);
    } else {
      cue_single_impulse(layout, laws, d, balls, struck, elastic, impulses + 3 * seed, end);
      active[seed] = mju_norm3(impulses + 3 * seed) > 0;
      use(used, struck->a, struck->b);
    }
  }
  return all;
}
