// The event-aligned loop around MuJoCo's step.
#include <math.h>
#include <string.h>
#include <time.h>

#include "cue_kernel.h"

// Impact steps in a row at one place before a cluster is resolved without rebound.
#define PATIENCE 60
// Share of the energy that one step may seem to add: what the solver leaves in a cluster of contacts.
#define ENERGY_TOLERANCE 1e-6
// Longest step [s] while balls press or graze: their contact is then resolved to the first order only ...
#define LEANING_STEP 1e-2
// ... and while a ball is over a drop, where its way is looked at on straight paths.
#define OVER_DROP_STEP 2e-2
// A slow hit [m/s] is one if the pair has not touched for so long [s].
#define SLOWEST_HIT 1e-5
#define SERIES 2.5e-2
#define MOST_SEGMENTS 32

int cue_abi(void) { return CUE_ABI; }
int cue_mujoco_version_built(void) { return mjVERSION_HEADER; }
int cue_mujoco_version_loaded(void) { return mj_version(); }

static void add_event(cue_record* record, double time, int kind, int ball, int other) {
  if (kind == CUE_BALL_BALL || kind == CUE_CUSHION) record->contacts++;
  if (record->events >= record->event_capacity) return;
  double* row = record->event + 4 * record->events++;
  row[0] = time;
  row[1] = kind;
  row[2] = ball;
  row[3] = other;
}

// Writes the samples due up to `now`; those flagged `free` follow their path from `start`. A ball out of play is at home.
static void sample(const cue_layout* layout, cue_path* paths, const cue_ball* to, const uint8_t* is_free,
                   const int32_t* in_play, double start, double now, cue_record* record) {
  const int n = layout->balls;
  while (record->next < record->count && record->time[record->next] <= now) {
    const double t = record->time[record->next] - start;
    double* out = record->position + 2 * (size_t)n * record->next;
    uint8_t* gone = record->pocketed + (size_t)n * record->next;
    for (int i = 0; i < n; i++) {
      gone[i] = !in_play[i];
      if (gone[i] && record->home) {
        memcpy(out + 2 * i, record->home + 2 * i, 2 * sizeof *out);
        continue;
      }
      cue_ball ball = paths[i].node[0];
      if (now > start && in_play[i]) {
        if (!is_free[i]) {
          const double part = t / (now - start);
          ball.x += part * (to[i].x - ball.x);
          ball.y += part * (to[i].y - ball.y);
        } else if (!cue_at_rest(&ball) || !cue_at_rest(to + i)) {
          cue_path_at(paths + i, t, &ball);
        }
      }
      out[2 * i] = ball.x;
      out[2 * i + 1] = ball.y;
    }
    record->next++;
  }
}

static void mark_touched(const cue_touch* touches, const uint8_t* active, int count, uint8_t* is_free) {
  for (int c = 0; c < count; c++) {
    if (!active[c]) continue;
    is_free[touches[c].a] = 0;
    if (touches[c].b >= 0) is_free[touches[c].b] = 0;
  }
}

// Finds when the last moving ball comes to rest, if all do within h; else INFINITY.
static double all_rest(cue_path* paths, const uint8_t* moves, int n, double h) {
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

static int warnings(const mjData* d, int* count) {
  int changed = -1;
  for (int w = 0; w < mjNWARNING; w++) {
    if (d->warning[w].number != count[w] && changed < 0) changed = w;
    count[w] = d->warning[w].number;
  }
  return changed;
}

static double clock_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

// When each pair last touched [s], to tell a slow hit from the next of many by which a ball settles against another.
typedef struct {
  int balls;
  double time[CUE_MAX_BALLS * (CUE_MAX_BALLS + MOST_SEGMENTS)];
} contacts;

static double* last_contact(contacts* known, const cue_touch* touch) {
  const int n = known->balls, a = touch->a, b = touch->b;
  if (b < 0) return known->time + n * n + (-1 - b) * n + a;
  return known->time + (a < b ? a * n + b : b * n + a);
}

// Whether the law of impacts has the say: at every blow, and at a slow hit that is none of a series.
static int is_impact(contacts* known, const cue_touch* touch, double now) {
  if (touch->approach > CUE_SLOW_APPROACH) return 1;
  return touch->approach > SLOWEST_HIT && now - *last_contact(known, touch) > SERIES;
}

// Finds the impulses of the contacts that act now, fastest first. A cluster's contacts join the one that strikes it;
// a ball takes part in one event at a time, the others wait for the next step. The slate's part goes into `end`.
static void resolve(const cue_layout* layout, const cue_laws* laws, const mjData* d, const cue_ball* balls,
                    const cue_touch* touches, int count, uint8_t* active, contacts* known, double* impulses, cue_ball* end) {
  uint8_t member[CUE_MAX_TOUCHES], waiting[CUE_MAX_TOUCHES], used[CUE_MAX_BALLS] = {0};
  memcpy(waiting, active, count);
  memset(active, 0, count);
  while (1) {
    int seed = -1;
    for (int c = 0; c < count; c++) {
      if (waiting[c] && (seed < 0 || touches[c].approach > touches[seed].approach)) seed = c;
    }
    if (seed < 0) return;
    waiting[seed] = 0;
    memset(member, 0, count);
    member[seed] = 1;
    const int elastic = is_impact(known, touches + seed, d->time);
    const int size = elastic && touches[seed].b >= 0 ? cue_grow_cluster(touches, count, seed, member) : 1;
    int busy = 0;
    for (int c = 0; c < count; c++) {
      if (member[c]) busy |= used[touches[c].a] || (touches[c].b >= 0 && used[touches[c].b]);
    }
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

int cue_advance(const cue_layout* layout, mjModel* m, mjData* d, const cue_laws* laws, int32_t* in_play,
                const cue_options* options, cue_record* record) {
  const int n = layout->balls;
  const mjtNum usual_step = m->opt.timestep;
  cue_ball before[CUE_MAX_BALLS], after[CUE_MAX_BALLS], end[CUE_MAX_BALLS];
  cue_path paths[CUE_MAX_BALLS];
  uint8_t is_free[CUE_MAX_BALLS], moves[CUE_MAX_BALLS], active[CUE_MAX_TOUCHES];
  cue_touch touches[CUE_MAX_TOUCHES];
  double impulses[3 * CUE_MAX_TOUCHES];
  // how long each ball has been over a drop; kept with the state, for the next call
  double forgotten[CUE_MAX_BALLS] = {0}, *over = m->nuserdata >= n ? d->userdata : forgotten;
  int status = CUE_REACHED, patience = 0, warned[mjNWARNING];
  const int first_step = record->steps;
  memset(is_free, 1, sizeof is_free);
  memset(before, 0, sizeof before);
  warnings(d, warned);
  for (int i = 0; i < n; i++) cue_read_ball(layout, d, i, before + i);
  const int tilted = laws->tilt_x != 0 || laws->tilt_y != 0;
  const int steep = hypot(laws->tilt_x, laws->tilt_y) > laws->rolling_friction;
  double had = cue_energy(layout, laws, before, in_play);
  if (!isfinite(had)) return CUE_NOT_FINITE;
  double lowest = had, mass = 0;
  for (int i = 0; i < n; i++) mass += layout->mass[i];
  // the energy at stake: that of the motion, and what the slope may add to it
  cue_laws level = *laws;
  level.tilt_x = level.tilt_y = 0;
  const double drop = fabs(laws->tilt_x) * layout->half_length + fabs(laws->tilt_y) * layout->half_width;
  const double stake = cue_energy(layout, &level, before, in_play) + mass * laws->gravity * drop;
  // how long each ball has been spared the cloth, in impacts
  double spared[CUE_MAX_BALLS] = {0};
  contacts known;
  known.balls = n;
  cue_laws felt[CUE_MAX_BALLS];
  uint8_t leans[CUE_MAX_BALLS] = {0};
  for (int k = 0; k < n * (n + layout->segments); k++) known.time[k] = -INFINITY;
  const double largest = options->largest_step;
  for (int i = 0; i < n; i++) cue_path_begin(paths + i, before + i, layout->radius[i], laws, largest);
  sample(layout, paths, before, is_free, in_play, d->time, d->time, record);

  while (1) {
    const double left = options->until - d->time;
    if (left <= 1e-10) break;
    if (options->cancel && *options->cancel) {
      status = CUE_CANCELLED;
      break;
    }
    if (options->step_limit > 0 && record->steps - first_step >= options->step_limit) {
      status = CUE_TOO_MANY_STEPS;
      break;
    }
    int still = 1;
    for (int i = 0; i < n; i++) {
      // on a bed too steep for its cloth a ball rests only where it leans on something
      const int resting = cue_at_rest(before + i);
      still &= !in_play[i] || (resting && (!steep || !is_free[i] || leans[i]));
      moves[i] = in_play[i] && (!resting || steep);
      cue_ball from = before[i];
      if (spared[i] > 0 && !resting) {
        cue_cloth(&from, layout->radius[i], laws, spared[i]);
        from.x = before[i].x;
        from.y = before[i].y;
      }
      cue_path_begin(paths + i, &from, layout->radius[i], laws, largest);
    }
    if (still && options->stop_at_rest) {
      status = CUE_REST;
      break;
    }

    // the step ends exactly where the next impact begins, or where the last ball stops
    double h = fmin(largest, left);
    for (int i = 0; i < n; i++) {
      if (!moves[i] || over[i] == 0) continue;
      h = fmin(h, OVER_DROP_STEP);
      const double edge = cue_pocket_meeting(layout, laws->gravity, i, before + i, over[i], h);
      h = fmin(h, edge < 1e-3 ? edge : .8 * edge);
    }
    const cue_meeting meeting = cue_next_meeting(layout, paths, moves, in_play, over, h);
    h = meeting.time;
    const int now = meeting.met && meeting.time <= 0;
    if (now) {
      h = patience < PATIENCE ? options->impact_step : 1e-4;
    } else if (meeting.leaning) {
      h = fmin(h, LEANING_STEP);
    } else if (!meeting.met && options->stop_at_rest && !steep) {
      h = fmin(h, all_rest(paths, moves, n, h));
    }
    h = fmin(fmax(h, 1e-8), left);
    m->opt.timestep = h;
    double began = options->clock ? clock_now() : 0;
    mj_step1(m, d);
    if (options->clock) record->seconds += clock_now() - began;

    const int count = d->ncon > 0 ? cue_find_touches(layout, d, in_play, touches, CUE_MAX_TOUCHES) : 0;
    if (count == CUE_MAX_TOUCHES) {
      status = CUE_TOO_MANY_CONTACTS;
      break;
    }
    int impacts = 0, leaning = 0;
    cue_choose_touches(touches, count, active);
    for (int c = 0; c < count; c++) {
      // what touches as the call begins may be in the middle of a series
      if (record->steps == first_step) *last_contact(&known, touches + c) = d->time;
      impacts |= active[c] && is_impact(&known, touches + c, d->time);
      const int moving = moves[touches[c].a] || (touches[c].b >= 0 && moves[touches[c].b]);
      leaning |= moving && touches[c].approach > -CUE_SLOW_APPROACH;
    }
    if (impacts) {
      m->opt.timestep = h = fmin(options->impact_step, left);
    } else if (leaning && h > LEANING_STEP) {
      m->opt.timestep = h = LEANING_STEP;
    }
    patience = impacts || now ? patience + 1 : 0;

    // an impact is over before the cloth acts, which makes up for it later; elsewhere, and in slow contact, it acts
    const int instant = impacts && patience <= PATIENCE;
    memset(is_free, 1, sizeof is_free);
    memcpy(end, before, n * sizeof *end);
    for (int i = 0; i < n && tilted; i++) {
      leans[i] = !instant && moves[i] && cue_lean(layout, d, i, before, touches, count, laws, felt + i);
      if (leans[i]) cue_path_begin(paths + i, before + i, layout->radius[i], felt + i, largest);
    }
    if (instant) {
      resolve(layout, laws, d, before, touches, count, active, &known, impulses, end);
      mark_touched(touches, active, count, is_free);
    }
    for (int i = 0; i < n; i++) spared[i] = is_free[i] ? 0 : spared[i] + h;
    for (int c = 0; c < count; c++) {
      if (touches[c].approach > -CUE_SLOW_APPROACH) *last_contact(&known, touches + c) = d->time;
    }
    for (int i = 0; i < n; i++) {
      if (in_play[i] && is_free[i] && (moves[i] || before[i].wz != 0)) cue_path_at(paths + i, h, end + i);
    }
    if (!instant && count > 0) {
      cue_press_impulse(layout, d, end, touches, count, impulses);
      for (int c = 0; c < count; c++) active[c] = mju_norm3(impulses + 3 * c) > 0;
      mark_touched(touches, active, count, is_free);
    }
    if (count > 0) cue_write_targets(layout, d, before, end, touches, active, impulses, count, h);
    for (int i = 0; i < n; i++) cue_push_ball(layout, d, i, before + i, end + i, h);

    const double start = d->time;
    for (int c = 0; c < count; c++) {
      // a contact through which a blow runs counts, whether or not it approached beforehand
      const double blow = CUE_SLOW_APPROACH * .5 * layout->mass[touches[c].a];
      if (!instant || !active[c] || mju_norm3(impulses + 3 * c) < blow) continue;
      const int ball_ball = touches[c].b >= 0;
      add_event(record, start, ball_ball ? CUE_BALL_BALL : CUE_CUSHION, touches[c].a,
                ball_ball ? touches[c].b : layout->cushion[-1 - touches[c].b]);
    }
    for (int i = 0; i < n && instant; i++) {
      if (is_free[i] || cue_hop(layout, laws, touches, active, impulses, count, i) <= laws->hop_height) continue;
      add_event(record, start, CUE_AIRBORNE, i, 0);
    }
    began = options->clock ? clock_now() : 0;
    mj_step2(m, d);
    if (options->clock) record->seconds += clock_now() - began;
    record->steps++;

    for (int i = 0; i < n; i++) {
      const mjtNum* v = d->qvel + layout->dof[i];
      // where nothing but the cloth acted, its closed form is the answer; MuJoCo's differs by its step's error, or by
      // the push of something else (a cue), which then counts
      is_free[i] &= fabs(v[0] - end[i].vx) + fabs(v[1] - end[i].vy) < 1e-9;
      if (in_play[i] && is_free[i]) {
        cue_write_ball(layout, d, i, end + i);
        after[i] = end[i];
      } else {
        if (in_play[i]) cue_settle(layout, d, i);
        cue_read_ball(layout, d, i, after + i);
      }
    }
    sample(layout, paths, after, is_free, in_play, start, d->time, record);

    const double has = cue_energy(layout, laws, after, in_play);
    if (!isfinite(has)) {
      status = CUE_NOT_FINITE;
      break;
    }
    if (stake > 0) record->energy_gain = fmax(record->energy_gain, (has - lowest) / stake);
    lowest = fmin(lowest, has);
    // the work of a ball that leans on something against the slope is exact only to the second order in its steps
    const double fall = laws->gravity * hypot(laws->tilt_x, laws->tilt_y);
    const double slack = mass * fall * fall * h * fmin(h, LEANING_STEP);
    if (options->check_energy && has > had + ENERGY_TOLERANCE * (fabs(had) + stake) + slack) {
      status = CUE_ENERGY_GAIN;
      break;
    }
    had = has;
    const int warning = warnings(d, warned);
    if (warning >= 0) {
      status = CUE_WARNING - warning;
      break;
    }

    int escaped = 0;
    for (int i = 0; i < n; i++) {
      if (in_play[i] && (!cue_at_rest(after + i) || over[i] > 0)) {
        double hop;
        const int hole = cue_pocket_of(layout, laws->gravity, i, after + i, h, over + i, &hop);
        if (hole >= 0) {
          add_event(record, d->time, CUE_POCKET, i, hole);
          in_play[i] = 0;
          over[i] = 0;
          if (record->home) memcpy(record->home + 2 * i, layout->pocket + 4 * hole, 2 * sizeof(double));
          cue_park(layout, d, i);
          cue_read_ball(layout, d, i, after + i);
          had = lowest = cue_energy(layout, laws, after, in_play);
        } else if (hole == -2) {
          escaped = 1;
        } else if (hop >= 0) {
          cue_write_ball(layout, d, i, after + i);
          if (hop > laws->hop_height) add_event(record, d->time, CUE_AIRBORNE, i, 0);
        }
      }
      before[i] = after[i];
    }
    if (escaped) {
      status = CUE_ESCAPE;
      break;
    }
    if (options->contact_limit > 0 && record->contacts >= options->contact_limit) {
      status = CUE_CONTACTS;
      break;
    }
  }
  m->opt.timestep = usual_step;
  return status;
}
