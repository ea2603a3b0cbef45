// Billiards on MuJoCo: shared declarations of the kernel.
//
// MuJoCo steps the balls (slide x, slide y, ball joint: planar, z fixed). Between mj_step1 and mj_step2 this kernel
// writes the cloth law as generalised forces and the exact outcome of each impact as the target of the contact's
// constraint rows. Steps end where an impact begins. No global callback: any number of simulations run side by side.
#ifndef CUE_KERNEL_H_
#define CUE_KERNEL_H_

#include <mujoco/mujoco.h>
#include <stdint.h>

#include "laws/law.h"

// Change it whenever a struct or a function below changes: the Python side refuses another number.
#define CUE_ABI 7

#define CUE_API __attribute__((visibility("default")))

#define CUE_MAX_BALLS 32
#define CUE_MAX_TOUCHES 256

// Event kinds; values equal cue_sim.kernel.
enum { CUE_BALL_BALL = 1, CUE_CUSHION = 2, CUE_POCKET = 3, CUE_AIRBORNE = 4 };

// Status of cue_advance; negative = fault.
enum {
  CUE_REACHED = 0,    // the end time
  CUE_REST = 1,       // every ball in play rests
  CUE_CONTACTS = 2,   // as many contacts as asked for
  CUE_CANCELLED = 3,  // told to stop
  CUE_NOT_FINITE = -1,
  CUE_ENERGY_GAIN = -2,
  CUE_ESCAPE = -3,    // a ball left the table other than through a pocket
  CUE_TOO_MANY_STEPS = -4,
  CUE_TOO_MANY_CONTACTS = -5,  // at once, or more events than fit into the record
  CUE_BAD_START = -6,          // balls faster than any shot has them, or off the table
  CUE_BAD_LAWS = -7,           // coefficients without a meaning
  CUE_WARNING = -10,           // less w: MuJoCo's own mjtWarning w
};

// Where the table's parts live in a compiled model (which may hold other bodies), and its planar geometry.
typedef struct {
  int32_t balls, segments, pockets, geoms;
  const int32_t* body;         // (balls) body id
  const int32_t* qpos;         // (balls) address of x, y, qw, qx, qy, qz
  const int32_t* dof;          // (balls) address of vx, vy and the body-frame angular velocity
  const double* radius;        // (balls) [m]
  const double* mass;          // (balls) [kg]
  const int32_t* role;         // (geoms) -1 other, b ball b, balls + s segment s
  const double* segment;       // (segments, 4) axis of the nose capsule: ax, ay, bx, by [m]
  const double* reach;         // (segments, balls) distance from the axis to a touching ball's centre in plan view [m]
  const int32_t* cushion;      // (segments) cushion that the segment belongs to
  const double* pocket;        // (pockets, 4) x, y, radius of the drop, radius of the mouth [m]
  double half_length, half_width;  // [m] between the noses
  const double* stop;          // (balls) distance from a nose line to the touching ball's centre [m]
  const double* line;          // (lines, 6) nose lines: start x, y, end x, y, normal x, y [m]
  int32_t lines, unused;
  const int32_t* ball_id;      // (balls)
  const int32_t* ball_geom;    // (balls) geom id
  const int32_t* nose_geom;    // (segments) geom id
  const double* inertia;       // (balls, 3) of the model as it was made [kg m^2] ...
  const double* dof_inertia;   // (balls, 5) ... and its dof_M0
  const double* nose;          // (segments, 4) place of the capsule's geom as it was made, and its radius [m]
  double nose_height;          // [m]
  double inset;                // [m] the noses stand into the table by up to so much more than half_length, half_width
} cue_layout;

#define CUE_MOST_SEGMENTS 32
#define CUE_MOST_LINES 6

typedef struct {
  double until;           // [s] absolute simulation time
  double largest_step;    // [s]
  double impact_step;     // [s]
  int32_t contact_limit;  // stop at this many ball-ball and cushion contacts; 0 = never
  int32_t stop_at_rest;
  int32_t check_energy;   // off where something else (a cue) may add energy
  int32_t step_limit;     // MuJoCo steps after which something must be wrong; 0 = none
  int32_t clock;          // sum up the time spent inside MuJoCo's steps
  int32_t unused;
  const volatile int32_t* cancel;  // stop as soon as it is not zero; NULL = never
} cue_options;

// Samples of positions and events; the caller owns the arrays.
typedef struct {
  int32_t count, next;         // sample times, and the next one due
  const double* time;          // (count) increasing, absolute [s]
  double* position;            // (count, balls, 2) [m]
  uint8_t* pocketed;           // (count, balls)
  int32_t event_capacity, events;
  double* event;               // (event_capacity, 4) time, kind, ball index, other index
  int32_t contacts;            // ball-ball and cushion contacts so far
  int32_t steps;               // MuJoCo steps so far
  double* home;                // (balls, 2) where balls out of play are said to be [m]; NULL = where they are parked
  double energy_gain;          // largest rise above the least energy so far, relative to that at stake
  double seconds;              // spent inside MuJoCo's steps, if asked for [s]
} cue_record;

// registry.c (and laws/law.h)
void cue_cloth(cue_ball* ball, double radius, const cue_laws* laws, double h);
int cue_cloth_exact(const cue_laws* laws);
double cue_cloth_bound(const cue_ball* ball, double radius, const cue_laws* laws);

// fitted.c
// The room of a layout that is worked out for one job.
typedef struct {
  cue_layout layout;
  double radius[CUE_MAX_BALLS], mass[CUE_MAX_BALLS], stop[CUE_MAX_BALLS];
  double segment[4 * CUE_MOST_SEGMENTS], reach[CUE_MOST_SEGMENTS * CUE_MAX_BALLS], line[6 * CUE_MOST_LINES];
} cue_room;
// Works out what laws hold beyond their row.
void cue_ready_laws(const cue_layout* layout, const cue_laws* row, const cue_correction* correction, cue_laws* ready);
// The layout as the laws' sizes, masses and noses have it: the given one where they say nothing.
const cue_layout* cue_fitted_layout(const cue_layout* layout, const cue_laws* laws, cue_room* room);
void cue_fit_model(const cue_layout* layout, const cue_layout* fitted, mjModel* m);

// correction.c
// Gaussian bumps: (count, dims) centres, and one over their widths along each dimension.
typedef struct {
  int32_t count, dims;
  const double* centre;
  const double* per_width;
} cue_basis;
// Rolling: x, y [m], cosine and sine of the direction, speed [m/s]. Impacts: approach, slip [m/s].
typedef struct {
  cue_basis rolling, cushion, ball;
} cue_learned;
void cue_begin_correction(const cue_learned* learned, const double* weights, cue_correction* out);

// impact.c
typedef struct {
  int contact, a, b;   // index into mjData.contact, -1 = none; a, b: ball indices, b < 0: segment -1 - b
  int a_first;         // 1: the contact's normal points from a to b, 0: from b to a
  double approach;     // [m/s] along the contact normal, positive = approaching
  double gap;          // [m]
} cue_touch;
int cue_find_touches(const cue_layout* layout, const mjData* d, const int32_t* in_play, cue_touch* out, int capacity);
void cue_choose_touches(const cue_touch* touch, int count, uint8_t* active);
void cue_single_impulse(const cue_layout* layout, const cue_laws* laws, const mjData* d, const cue_ball* balls,
                        const cue_touch* touch, int elastic, double impulse[3], cue_ball* end);
double cue_hop(const cue_layout* layout, const cue_laws* laws, const cue_touch* touch, const uint8_t* active,
               const double* impulse, int count, int ball);
void cue_write_targets(const cue_layout* layout, mjData* d, const cue_ball* before, const cue_ball* after,
                       const cue_touch* touch, const uint8_t* active, const double* impulse, int count, double h);

// exchange.c
// When each pair last touched [s], to tell a slow hit from the next of many by which a ball settles against another.
typedef struct {
  int balls;
  double time[CUE_MAX_BALLS * (CUE_MAX_BALLS + CUE_MOST_SEGMENTS)];
} cue_contacts;
void cue_forget_contacts(cue_contacts* known, const cue_layout* layout);
double* cue_last_contact(cue_contacts* known, const cue_touch* touch);
// Whether the law of impacts has the say: at every blow, and at a slow hit that is none of a series.
int cue_is_impact(cue_contacts* known, const cue_touch* touch, double now);
// Finds the impulses of the contacts that act now, fastest first. A cluster's contacts join the one that strikes it;
// a ball takes part in one event at a time, the others wait for the next step. Pairs that only the blow brings together
// are no contacts of MuJoCo's: they are added behind the `count` touches (contact -1), their impulses go into `end`, and
// so does the slate's part. Returns the number of touches with them.
int cue_exchange(const cue_layout* layout, const cue_laws* laws, const mjData* d, const int32_t* in_play,
                 const cue_ball* balls, cue_touch* touches, int count, uint8_t* active, cue_contacts* known,
                 double* impulses, cue_ball* end);

// cluster.c
#define CUE_MAX_LINKS 128
// Two balls of a cluster.
typedef struct {
  int a, b, met;      // met: they have touched
  double normal[3];   // from a to b when they met
  double squeeze;     // [m] negative: open again
  double stiffness;   // [N/m^1.5]
  double impulse[3];  // [N s] on b
} cue_link;
// Lets the blow of a pair that strikes run through the balls that touch or nearly do. Returns the number of links
// through which it ran, with their impulses; 1 = the pair is alone.
int cue_cluster(const cue_layout* layout, const cue_laws* laws, const int32_t* in_play, const cue_ball* balls,
                const cue_touch* struck, cue_link* links, int capacity);
// Adds a link's impulse to its balls' velocities and spins.
void cue_link_pushes(const cue_layout* layout, const cue_link* link, cue_ball* balls);

// press.c
void cue_press_impulse(const cue_layout* layout, const mjData* d, const cue_ball* balls, const cue_touch* touch,
                     int count, double* impulse);

// pocket.c
// Returns the pocket that has taken ball i, -1 = none, -2 = it is off the table; `over` [s]: for how long it has been
// over a drop, 0 = it is over none; a step of h ends now. Where the ball climbs out of a drop its velocity changes, and
// `hop` is the height to which it rises [m], else negative.
int cue_pocket_of(const cue_layout* layout, double gravity, int i, cue_ball* ball, double h, double* over,
                  double* hop);
// Returns the time until ball i crosses a drop's edge or is gone, on its straight path; INFINITY = it does not.
double cue_pocket_meeting(const cue_layout* layout, double gravity, int i, const cue_ball* ball, double over,
                          double horizon);

// balls.c
int cue_at_rest(const cue_ball* ball);
void cue_read_ball(const cue_layout* layout, const mjData* d, int i, cue_ball* ball);
void cue_write_ball(const cue_layout* layout, mjData* d, int i, const cue_ball* ball);
void cue_push_ball(const cue_layout* layout, mjData* d, int i, const cue_ball* before, const cue_ball* after, double h);
void cue_settle(const cue_layout* layout, mjData* d, int i);
void cue_park(const cue_layout* layout, mjData* d, int i);
double cue_energy(const cue_layout* layout, const cue_laws* laws, const cue_ball* balls, const int32_t* in_play);

// path.c
#define CUE_PATH_NODES 128
typedef struct {
  cue_ball node[CUE_PATH_NODES];  // the ball at multiples of `spacing`; the first `filled` are known
  int filled;
  double spacing, radius;
  const cue_laws* laws;
} cue_path;
void cue_path_begin(cue_path* path, const cue_ball* ball, double radius, const cue_laws* laws, double largest_step);
void cue_path_at(cue_path* path, double t, cue_ball* out);

// Returns when the last of the moving balls comes to rest, if all do within h; else INFINITY.
double cue_all_rest(cue_path* paths, const uint8_t* moves, int n, double h);

// record.c
void cue_add_event(cue_record* record, double time, int kind, int ball, int other);
void cue_sample(const cue_layout* layout, cue_path* paths, const cue_ball* to, const uint8_t* is_free,
                const int32_t* in_play, double start, double now, cue_record* record);

// lean.c
int cue_lean(const cue_layout* layout, const mjData* d, int i, const cue_ball* balls, const cue_touch* touch, int count,
             const cue_laws* laws, cue_laws* felt);

// meeting.c
typedef struct {
  double time;  // [s] from now
  int met;      // 1: bodies meet then; 0: none does until then
  int leaning;  // some bodies press or graze now
} cue_meeting;
cue_meeting cue_next_meeting(const cue_layout* layout, cue_path* paths, const uint8_t* moves, const int32_t* in_play,
                             const double* over, double horizon);

// overlap.c
CUE_API int cue_separate(const cue_layout* layout, double* position, const int32_t* in_play);

// batch.c
typedef struct {
  int32_t status, events, steps;
  int32_t moved;        // balls were set apart at the start
  double time;          // [s] at which it ended
  double energy_gain;   // see cue_record
  double seconds;       // see cue_record
} cue_outcome;

// Jobs and room for what becomes of them; the caller owns the arrays.
typedef struct {
  int32_t jobs, law_size;        // law_size: doubles per set of laws
  int32_t next, done;            // the next job to take, and how many are finished
  volatile int32_t cancel;       // set it to stop all
  int32_t event_capacity;
  cue_options options;           // of every job; the contact limit is the job's
  const double* laws;            // (jobs, law_size)
  const int32_t* refused;        // (jobs) status of a job that is not to be tried, else 0
  double* position;              // (jobs, balls, 2) [m]; overlaps are set apart in place
  const double* velocity;        // (jobs, balls, 2) [m/s]
  const double* spin;            // (jobs, balls, 3) [rad/s] table axes
  int32_t* in_play;              // (jobs, balls) before, and after
  const int32_t* contact_limit;  // (jobs)
  const int64_t* first_time;     // (jobs + 1) where a job's sample times begin and end
  const double* time;            // all jobs' sample times [s]
  double* sample;                // (times, balls, 2) [m]
  uint8_t* pocketed;             // (times, balls)
  double* rest;                  // (jobs, balls, 2) [m] at the end
  double* event;                 // (jobs, event_capacity, 4), see cue_record
  cue_outcome* outcome;          // (jobs)
  const cue_learned* learned;    // of all jobs; the weights are each job's own, behind its laws; NULL = none
} cue_batch;
CUE_API int cue_work(const cue_layout* layout, mjModel* m, mjData* d, cue_batch* batch);

// advance.c: the interface to Python
CUE_API int cue_abi(void);
CUE_API int cue_mujoco_version_built(void);
CUE_API int cue_mujoco_version_loaded(void);
CUE_API void cue_start(const cue_layout* layout, const mjModel* m, mjData* d, const double* position,
                       const double* velocity, const double* spin, const int32_t* in_play);
CUE_API int cue_advance(const cue_layout* layout, mjModel* m, mjData* d, const cue_laws* laws, int32_t* in_play,
                        const cue_options* options, cue_record* record);
// The same with laws, layout and model made ready.
int cue_simulate(const cue_layout* layout, mjModel* m, mjData* d, const cue_laws* laws, int32_t* in_play,
                 const cue_options* options, cue_record* record);

// evaluate.c and registry.c: laws without MuJoCo
CUE_API const cue_law* cue_law_at(int slot, int index);
CUE_API int cue_laws_size(void);
CUE_API void cue_evaluate_cushion(const cue_laws* laws, int count, double mass, double radius, double tilt,
                                  double* velocity, double* spin, double* nose, double* slate);
CUE_API void cue_evaluate_ball(const cue_laws* laws, int count, const double* mass, const double* radius,
                               double* velocity, double* spin, double* contact, double* slate);
CUE_API void cue_evaluate_cloth(const cue_laws* laws, int count, double radius, const double* time, double* position,
                                double* velocity, double* spin);

// The slowest approach that is an impact with restitution; slower ones end without rebound [m/s].
#define CUE_SLOW_APPROACH 2e-3
// Gap below which two bodies count as touching [m] ...
#define CUE_TOUCHING 2e-7
// ... and that at which a contact enters MuJoCo's solver: cue_sim.model.CONTACT_MARGIN.
#define CUE_MARGIN 1e-6

#endif  // CUE_KERNEL_H_
