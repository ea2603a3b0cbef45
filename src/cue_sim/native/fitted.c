// A job may have balls of other sizes and masses, and cushions that stand elsewhere, than the model was made with. Its
// layout is then worked out anew, and the thread's own model is changed to match; a job without them finds both as they
// were made, to the last bit, whatever was done before.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "cue_kernel.h"

void cue_ready_laws(const cue_layout* layout, const cue_laws* row, const cue_correction* correction, cue_laws* ready) {
  memcpy(ready, row, offsetof(cue_laws, uneven));
  double top = 0;
  ready->uneven = 0;
  for (int k = 0; k < CUE_FIELD_X * CUE_FIELD_Y; k++) {
    if (row->cloth_field[k] == 0) continue;
    ready->uneven = 1;
    top = fmax(top, row->cloth_field[k]);
  }
  ready->roughest = ready->uneven ? exp(top) : 1;
  ready->nodes_per_x = .5 * (CUE_FIELD_X - 1) / layout->half_length;
  ready->nodes_per_y = .5 * (CUE_FIELD_Y - 1) / layout->half_width;
  ready->correction = correction;
}

static double ratio(const double* ratios, int32_t id) { return id >= 0 && id < CUE_BALL_IDS ? ratios[id] : 1; }

const cue_layout* cue_fitted_layout(const cue_layout* layout, const cue_laws* laws, cue_room* room) {
  const int n = layout->balls, segments = layout->segments;
  int other_balls = 0, other_cushions = 0;
  for (int i = 0; i < n; i++) {
    const int32_t id = layout->ball_id[i];
    other_balls |= ratio(laws->mass_ratio, id) != 1 || ratio(laws->diameter_ratio, id) != 1;
  }
  for (int k = 0; k < layout->lines; k++) other_cushions |= laws->nose_offset[k] != 0;
  if (!other_balls && !other_cushions) return layout;

  room->layout = *layout;
  if (other_balls) {
    memcpy(room->reach, layout->reach, segments * n * sizeof *room->reach);
    for (int i = 0; i < n; i++) {
      const double size = ratio(laws->diameter_ratio, layout->ball_id[i]), R = size * layout->radius[i];
      room->radius[i] = R;
      room->mass[i] = ratio(laws->mass_ratio, layout->ball_id[i]) * layout->mass[i];
      room->stop[i] = layout->stop[i];
      if (size == 1) continue;
      const double h = layout->nose_height - R;
      room->stop[i] = sqrt(R * R - h * h);
      for (int k = 0; k < segments; k++) {
        const double above = layout->nose[4 * k + 2] - R, apart = R + layout->nose[4 * k + 3];
        room->reach[k * n + i] = sqrt(apart * apart - above * above);
      }
    }
    room->layout.radius = room->radius;
    room->layout.mass = room->mass;
    room->layout.stop = room->stop;
    room->layout.reach = room->reach;
  }
  if (other_cushions) {
    memcpy(room->line, layout->line, 6 * layout->lines * sizeof *room->line);
    for (int k = 0; k < layout->lines; k++) {
      double* line = room->line + 6 * k;  // start, end, normal
      for (int end = 0; end < 4; end++) line[end] += laws->nose_offset[k] * line[4 + end % 2];
      room->layout.inset = fmax(room->layout.inset, laws->nose_offset[k]);
    }
    for (int k = 0; k < segments; k++) {
      const int cushion = layout->cushion[k];
      const double *normal = layout->line + 6 * cushion + 4, *axis = layout->segment + 4 * k;
      for (int end = 0; end < 4; end++) {
        room->segment[4 * k + end] = axis[end] + laws->nose_offset[cushion] * normal[end % 2];
      }
    }
    room->layout.line = room->line;
    room->layout.segment = room->segment;
  }
  return &room->layout;
}

// What MuJoCo derives from masses besides (invweight0) only scales the softness of contacts, which the targets of the
// impacts make up for.
static void fit_ball(const cue_layout* layout, const cue_layout* fitted, int i, mjModel* m) {
  const double R = fitted->radius[i], mass = fitted->mass[i];
  const int body = layout->body[i], geom = layout->ball_geom[i];
  if (m->geom_size[3 * geom] == R && m->body_mass[body] == mass) return;
  const double size = R / layout->radius[i], heavy = mass / layout->mass[i], turn = heavy * size * size;
  m->body_mass[body] = m->body_subtreemass[body] = mass;
  for (int k = 0; k < 3; k++) m->body_inertia[3 * body + k] = turn * layout->inertia[3 * i + k];
  for (int k = 0; k < 5; k++) m->dof_M0[layout->dof[i] + k] = (k < 2 ? heavy : turn) * layout->dof_inertia[5 * i + k];
  m->body_pos[3 * body + 2] = R;
  m->geom_size[3 * geom] = m->geom_rbound[geom] = R;
  for (int k = 3; k < 6; k++) m->geom_aabb[6 * geom + k] = R;
}

void cue_fit_model(const cue_layout* layout, const cue_layout* fitted, mjModel* m) {
  for (int i = 0; i < layout->balls; i++) fit_ball(layout, fitted, i, m);
  for (int k = 0; k < layout->segments; k++) {
    mjtNum* pos = m->geom_pos + 3 * layout->nose_geom[k];
    for (int c = 0; c < 2; c++) {
      const double made = layout->nose[4 * k + c];
      pos[c] = fitted == layout ? made : made + (fitted->segment[4 * k + c] - layout->segment[4 * k + c]);
    }
  }
}
