// What a simulation leaves behind: its events, and the balls' positions at the times asked for.
#include <string.h>

#include "cue_kernel.h"

void cue_add_event(cue_record* record, double time, int kind, int ball, int other) {
  if (kind == CUE_BALL_BALL || kind == CUE_CUSHION) record->contacts++;
  if (record->events >= record->event_capacity) return;
  double* row = record->event + 4 * record->events++;
  row[0] = time;
  row[1] = kind;
  row[2] = ball;
  row[3] = other;
}

// Writes the samples due up to `now`; those flagged `free` follow their path from `start`. A ball out of play is at home.
void cue_sample(const cue_layout* layout, cue_path* paths, const cue_ball* to, const uint8_t* is_free,
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
