// The event-aligned loop around MuJoCo's step.
#include <math.h>
#include <string.h>

#include "cue_kernel.h"

// Impact steps in a row at one place before a cluster is resolved without rebound.
#define PATIENCE 60
// Share of the energy that one step may seem to add: what the solver leaves in a cluster of contacts.
#define ENERGY_TOLERANCE 1e-6

int cue_abi(void) { return CUE_ABI; }
int cue_mujoco_version_built(void) { return mjVERSION_HEADER; }
int cue_mujoco_version_loaded(void) { return mj_version(); }

static void read_ball(const cue_layout* layout, const mjData* d, int i, cue_ball* ball) {
  const mjtNum *q = d->qpos + layout->qpos[i], *v = d->qvel + layout->dof[i];
  ball->x = q[0];
  ball->y = q[1];
  ball->vx = v[0];
  ball->vy = v[1];
  if (v[2] == 0 && v[3] == 0 && v[4] == 0) {
    ball->wx = ball->wy = ball->wz = 0;
    return;
  }
  mjtNum w[3];
  mju_rotVecQuat(w, v + 2, q + 2);
  ball->wx = w[0];
  ball->wy = w[1];
  ball->wz = w[2];
}

static void write_spin(const cue_layout* layout, mjData* d, int i, const double* spin) {
  mjtNum inverse[4];
  mju_negQuat(inverse, d->qpos + layout->qpos[i] + 2);
  mju_rotVecQuat(d->qvel + layout->dof[i] + 2, spin, inverse);
}

static int at_rest(const cue_ball* ball) {
  return ball->vx == 0 && ball->vy == 0 && ball->wx == 0 && ball->wy == 0;
}

// Stops a touched ball that has stopped travelling: the rest of its roll, which the cloth would undo within a fraction
// of a millimetre, and the rounding that a solver leaves. The cloth law itself reaches zero exactly.
static void settle(const cue_layout* layout, mjData* d, int i) {
  mjtNum* v = d->qvel + layout->dof[i];
  cue_ball ball;
  read_ball(layout, d, i, &ball);
  if (hypot(ball.vx, ball.vy) > 1e-7 || layout->radius[i] * hypot(ball.wx, ball.wy) > CUE_SLOW_APPROACH) return;
  const double upright[3] = {0, 0, ball.wz};
  v[0] = v[1] = 0;
  if (ball.wz == 0) {
    v[2] = v[3] = v[4] = 0;
  } else {
    write_spin(layout, d, i, upright);
  }
}

// Takes a ball out of play: parked beside the table, still.
static void park(const cue_layout* layout, mjData* d, int i) {
  mjtNum* q = d->qpos + layout->qpos[i];
  q[0] = 4 * layout->half_length + 6 * layout->radius[i] * i;
  q[1] = -4 * layout->half_length;
  mju_zero(d->qvel + layout->dof[i], 5);
  mju_zero(d->qfrc_applied + layout->dof[i], 5);
  mju_zero(d->qacc_warmstart + layout->dof[i], 5);
}

void cue_start(const cue_layout* layout, const mjModel* m, mjData* d, const double* position, const double* velocity,
               const double* spin, const int32_t* in_play) {
  mj_resetData(m, d);
  for (int i = 0; i < layout->balls; i++) {
    if (!in_play[i]) {
      park(layout, d, i);
      continue;
    }
    mjtNum *q = d->qpos + layout->qpos[i], *v = d->qvel + layout->dof[i];
    q[0] = position[2 * i];
    q[1] = position[2 * i + 1];
    v[0] = velocity[2 * i];
    v[1] = velocity[2 * i + 1];
    write_spin(layout, d, i, spin + 3 * i);
  }
}

static double energy(const cue_layout* layout, const cue_laws* laws, const cue_ball* balls, const int32_t* in_play) {
  double sum = 0;
  for (int i = 0; i < layout->balls; i++) {
    if (!in_play[i]) continue;
    const cue_ball* b = balls + i;
    const double R = layout->radius[i];
    sum += layout->mass[i] * (.5 * (b->vx * b->vx + b->vy * b->vy) +
                              .2 * R * R * (b->wx * b->wx + b->wy * b->wy + b->wz * b->wz) -
                              laws->gravity * (laws->tilt_x * b->x + laws->tilt_y * b->y));
  }
  return sum;
}

static void add_event(cue_record* record, double time, int kind, int ball, int other) {
  if (kind == CUE_BALL_BALL || kind == CUE_CUSHION) record->contacts++;
  if (record->events >= record->event_capacity) return;
  double* row = record->event + 4 * record->events++;
  row[0] = time;
  row[1] = kind;
  row[2] = ball;
  row[3] = other;
}

// Writes the samples due up to `now`. `from`: the balls at `start`; those flagged `free` follow the cloth law.
static void sample(const cue_layout* layout, const cue_laws* laws, const cue_ball* from, const cue_ball* to,
                   const uint8_t* is_free, const int32_t* in_play, double start, double now, cue_record* record) {
  const int n = layout->balls;
  while (record->next < record->count && record->time[record->next] <= now) {
    const double t = record->time[record->next] - start;
    double* out = record->position + 2 * (size_t)n * record->next;
    uint8_t* gone = record->pocketed + (size_t)n * record->next;
    for (int i = 0; i < n; i++) {
      gone[i] = !in_play[i];
      cue_ball ball = from[i];
      if (now > start && in_play[i]) {
        if (is_free[i]) {
          cue_cloth(&ball, layout->radius[i], laws, t);
        } else {
          const double part = t / (now - start);
          ball.x += part * (to[i].x - ball.x);
          ball.y += part * (to[i].y - ball.y);
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

// Writes the generalised force that takes a ball's velocity from `before` to `after` in a step of h.
static void apply_cloth(const cue_layout* layout, mjData* d, int i, const cue_ball* before, const cue_ball* after,
                        double h) {
  mjtNum* force = d->qfrc_applied + layout->dof[i];
  const double mass = layout->mass[i], R = layout->radius[i], inertia = .4 * mass * R * R;
  const mjtNum torque[3] = {inertia * (after->wx - before->wx) / h, inertia * (after->wy - before->wy) / h,
                            inertia * (after->wz - before->wz) / h};
  force[0] = mass * (after->vx - before->vx) / h;
  force[1] = mass * (after->vy - before->vy) / h;
  mju_mulMatTVec3(force + 2, d->xmat + 9 * layout->body[i], torque);
}

// Finds the impulses of the contacts that act now, fastest first. A cluster's contacts join the one that strikes it;
// a ball takes part in one event at a time, the others wait for the next step. The slate's part goes into `end`.
static void resolve(const cue_layout* layout, const cue_laws* laws, const mjData* d, const cue_ball* balls,
                    const cue_touch* touches, int count, uint8_t* active, double* impulses, cue_ball* end) {
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
    const int elastic = touches[seed].approach > CUE_SLOW_APPROACH;
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
  uint8_t is_free[CUE_MAX_BALLS], active[CUE_MAX_TOUCHES];
  cue_touch touches[CUE_MAX_TOUCHES];
  double impulses[3 * CUE_MAX_TOUCHES];
  // how long each ball has been over a drop; kept with the state, for the next call
  double forgotten[CUE_MAX_BALLS] = {0}, *over = m->nuserdata >= n ? d->userdata : forgotten;
  int status = CUE_REACHED, patience = 0;
  memset(is_free, 1, sizeof is_free);
  memset(before, 0, sizeof before);
  for (int i = 0; i < n; i++) read_ball(layout, d, i, before + i);
  const int steep = hypot(laws->tilt_x, laws->tilt_y) > laws->rolling_friction;
  double had = energy(layout, laws, before, in_play);
  if (!isfinite(had)) return CUE_NOT_FINITE;
  const double had_at_start = had;
  double mass = 0;
  for (int i = 0; i < n; i++) mass += layout->mass[i];
  sample(layout, laws, before, before, is_free, in_play, d->time, d->time, record);

  while (1) {
    const double left = options->until - d->time;
    if (left <= 1e-10) break;
    int still = 1;
    for (int i = 0; i < n && still; i++) {
      // on a bed too steep for its cloth a ball rests only where it leans on something
      still = !in_play[i] || (at_rest(before + i) && (!steep || !is_free[i]));
    }
    if (still && options->stop_at_rest) {
      status = CUE_REST;
      break;
    }

    // the step ends where the next impact begins, approached in two or three moves
    const double largest = fmin(options->largest_step, left);
    const double meeting = cue_next_meeting(layout, before, in_play, over, 2 * largest);
    double h = largest;
    if (meeting <= 0) {
      h = patience < PATIENCE ? fmin(options->impact_step, left) : fmin(1e-4, left);
    } else if (meeting < 1.5 * largest) {
      h = fmin(largest, meeting < 1e-3 ? meeting : .8 * meeting);
      h = fmin(fmax(h, 1e-8), left);
    }
    m->opt.timestep = h;
    mj_step1(m, d);

    const int count = cue_find_touches(layout, d, in_play, touches, CUE_MAX_TOUCHES);
    int impacts = 0;
    cue_choose_touches(touches, count, active);
    for (int c = 0; c < count; c++) impacts |= active[c] && touches[c].approach > CUE_SLOW_APPROACH;
    if (impacts) m->opt.timestep = h = fmin(options->impact_step, left);
    patience = impacts || meeting <= 0 ? patience + 1 : 0;

    // an impact is over before the cloth acts; elsewhere, and in slow contact, it acts
    const int instant = impacts && patience <= PATIENCE;
    memset(is_free, 1, sizeof is_free);
    memcpy(end, before, n * sizeof *end);
    if (instant) {
      resolve(layout, laws, d, before, touches, count, active, impulses, end);
      mark_touched(touches, active, count, is_free);
    }
    for (int i = 0; i < n; i++) {
      if (in_play[i] && is_free[i]) cue_cloth(end + i, layout->radius[i], laws, h);
    }
    if (!instant) {
      cue_press_impulse(layout, d, end, touches, count, impulses);
      for (int c = 0; c < count; c++) active[c] = mju_norm3(impulses + 3 * c) > 0;
      mark_touched(touches, active, count, is_free);
    }
    cue_write_targets(layout, d, before, end, touches, active, impulses, count, h);
    for (int i = 0; i < n; i++) apply_cloth(layout, d, i, before + i, end + i, h);

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
    mj_step2(m, d);
    record->steps++;

    for (int i = 0; i < n; i++) {
      mjtNum *q = d->qpos + layout->qpos[i], *v = d->qvel + layout->dof[i];
      if (in_play[i] && is_free[i]) {
        // where nothing but the cloth acted, its closed form is the answer; MuJoCo's differs by its step's error, or
        // by the push of something else (a cue), which then counts
        const double change = fabs(v[0] - end[i].vx) + fabs(v[1] - end[i].vy);
        if (change < 1e-9) {
          q[0] = end[i].x;
          q[1] = end[i].y;
          v[0] = end[i].vx;
          v[1] = end[i].vy;
          const double spin[3] = {end[i].wx, end[i].wy, end[i].wz};
          write_spin(layout, d, i, spin);
        } else {
          is_free[i] = 0;
        }
      }
      if (in_play[i] && !is_free[i]) settle(layout, d, i);
      read_ball(layout, d, i, after + i);
    }
    sample(layout, laws, before, after, is_free, in_play, start, d->time, record);

    const double has = energy(layout, laws, after, in_play);
    if (!isfinite(has)) {
      status = CUE_NOT_FINITE;
      break;
    }
    // a leaning ball's work against the slope is exact only to the second order in h
    const double fall = laws->gravity * hypot(laws->tilt_x, laws->tilt_y) * h;
    if (options->check_energy && has > had + ENERGY_TOLERANCE * (fabs(had) + fabs(had_at_start)) + mass * fall * fall) {
      status = CUE_ENERGY_GAIN;
      break;
    }
    had = has;

    int escaped = 0;
    for (int i = 0; i < n; i++) {
      if (in_play[i] && (!at_rest(after + i) || over[i] > 0)) {
        const int hole = cue_pocket_of(layout, i, after + i, h, over + i);
        if (hole >= 0) {
          add_event(record, d->time, CUE_POCKET, i, hole);
          in_play[i] = 0;
          over[i] = 0;
          park(layout, d, i);
          read_ball(layout, d, i, after + i);
          had = energy(layout, laws, after, in_play);
        } else if (hole == -2) {
          escaped = 1;
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
