// The event-aligned loop around MuJoCo's step.
#include <math.h>
#include <string.h>

#include "cue_kernel.h"

// Impact steps in a row at one place before a cluster is resolved without rebound.
#define PATIENCE 60

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

// Ends the creep that a solver leaves: the cloth law itself reaches zero exactly.
static void settle(mjtNum* v, double radius) {
  const double fastest = fmax(hypot(v[0], v[1]), radius * sqrt(v[2] * v[2] + v[3] * v[3] + v[4] * v[4]));
  if (fastest < 1e-7) mju_zero(v, 5);
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
  if (kind != CUE_POCKET) record->contacts++;
  if (record->events >= record->event_capacity) return;
  double* row = record->event + 4 * record->events++;
  row[0] = time;
  row[1] = kind;
  row[2] = ball;
  row[3] = other;
}

// Returns the pocket a ball has fallen into, -1 = none, -2 = it is off the table.
static int pocket_of(const cue_layout* layout, const cue_ball* ball) {
  const double out_x = fabs(ball->x) - layout->half_length, out_y = fabs(ball->y) - layout->half_width;
  int mouth = 0;
  for (int k = 0; k < layout->pockets; k++) {
    const double* hole = layout->pocket + 4 * k;
    const double distance = hypot(ball->x - hole[0], ball->y - hole[1]);
    if (distance <= hole[2] + CUE_TOUCHING) return k;
    if (distance <= hole[3]) mouth = 1;
  }
  return (out_x > 0 || out_y > 0) && !mouth ? -2 : -1;
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

// Finds the impulses of all contacts that act now; a cluster's contacts join those chosen.
static void resolve(const cue_layout* layout, const cue_laws* laws, const mjData* d, const cue_ball* balls,
                    const cue_touch* touches, int count, uint8_t* active, double* impulses) {
  uint8_t member[CUE_MAX_TOUCHES], done[CUE_MAX_TOUCHES] = {0};
  for (int c = 0; c < count; c++) {
    if (done[c] || !active[c]) continue;
    const int elastic = touches[c].approach > CUE_SLOW_APPROACH;
    if (elastic && touches[c].b >= 0 && cue_grow_cluster(layout, touches, count, c, member) > 1) {
      cue_cluster_impulse(layout, laws, d, balls, touches, member, count, impulses);
      for (int k = 0; k < count; k++) {
        if (!member[k]) continue;
        done[k] = 1;
        active[k] = mju_norm3(impulses + 3 * k) > 0;
      }
      continue;
    }
    cue_single_impulse(layout, laws, d, touches + c, elastic, impulses + 3 * c);
    done[c] = 1;
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
  int status = CUE_REACHED, patience = 0;
  memset(is_free, 1, sizeof is_free);
  for (int i = 0; i < n; i++) read_ball(layout, d, i, before + i);
  double had = energy(layout, laws, before, in_play);
  if (!isfinite(had)) return CUE_NOT_FINITE;
  sample(layout, laws, before, before, is_free, in_play, d->time, d->time, record);

  while (1) {
    const double left = options->until - d->time;
    if (left <= 1e-10) break;
    int still = 1;
    for (int i = 0; i < n && still; i++) still = !in_play[i] || at_rest(before + i);
    if (still && options->stop_at_rest) {
      status = CUE_REST;
      break;
    }

    // the step ends where the next impact begins, approached in two or three moves
    const double largest = fmin(options->largest_step, left);
    const double meeting = cue_next_meeting(layout, before, in_play, 2 * largest);
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
    if (count) {
      cue_choose_touches(touches, count, active);
      for (int c = 0; c < count; c++) impacts |= active[c] && touches[c].approach > CUE_SLOW_APPROACH;
      if (impacts) m->opt.timestep = h = fmin(options->impact_step, left);
      if (patience >= PATIENCE) {
        cue_jam_impulse(layout, d, before, touches, count, impulses);
        for (int c = 0; c < count; c++) active[c] = mju_norm3(impulses + 3 * c) > 0;
      } else {
        resolve(layout, laws, d, before, touches, count, active, impulses);
      }
      patience = impacts ? patience + 1 : 0;
      cue_write_targets(layout, d, touches, active, impulses, count, h);
    } else {
      patience = meeting <= 0 ? patience + 1 : 0;
    }

    // the cloth acts on every ball that is not in an impact
    memset(is_free, 1, sizeof is_free);
    for (int c = 0; c < count; c++) {
      if (!active[c]) continue;
      is_free[touches[c].a] = 0;
      if (touches[c].b >= 0) is_free[touches[c].b] = 0;
    }
    for (int i = 0; i < n; i++) {
      mjtNum* force = d->qfrc_applied + layout->dof[i];
      end[i] = before[i];
      if (!in_play[i] || (impacts && !is_free[i])) {
        mju_zero(force, 5);
        continue;
      }
      cue_cloth(end + i, layout->radius[i], laws, h);
      const double mass = layout->mass[i], R = layout->radius[i], inertia = .4 * mass * R * R;
      const mjtNum torque[3] = {inertia * (end[i].wx - before[i].wx) / h, inertia * (end[i].wy - before[i].wy) / h,
                                inertia * (end[i].wz - before[i].wz) / h};
      force[0] = mass * (end[i].vx - before[i].vx) / h;
      force[1] = mass * (end[i].vy - before[i].vy) / h;
      mju_mulMatTVec3(force + 2, d->xmat + 9 * layout->body[i], torque);
    }

    const double start = d->time;
    for (int c = 0; c < count; c++) {
      // a contact through which a blow runs counts, whether or not it approached beforehand
      const double blow = CUE_SLOW_APPROACH * .5 * layout->mass[touches[c].a];
      if (!impacts || !active[c] || mju_norm3(impulses + 3 * c) < blow) continue;
      const int ball_ball = touches[c].b >= 0;
      add_event(record, start, ball_ball ? CUE_BALL_BALL : CUE_CUSHION, touches[c].a,
                ball_ball ? touches[c].b : layout->cushion[-1 - touches[c].b]);
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
      if (in_play[i] && !is_free[i]) settle(v, layout->radius[i]);
      read_ball(layout, d, i, after + i);
    }
    sample(layout, laws, before, after, is_free, in_play, start, d->time, record);

    const double has = energy(layout, laws, after, in_play);
    if (!isfinite(has)) {
      status = CUE_NOT_FINITE;
      break;
    }
    if (options->check_energy && has > had + 1e-9 * fabs(had) + 1e-12) {
      status = CUE_ENERGY_GAIN;
      break;
    }
    had = has;

    int escaped = 0;
    for (int i = 0; i < n; i++) {
      if (in_play[i] && !at_rest(after + i)) {
        const int hole = pocket_of(layout, after + i);
        if (hole >= 0) {
          add_event(record, d->time, CUE_POCKET, i, hole);
          in_play[i] = 0;
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
