package ledger

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
)

// MissedRule says what becomes of fires that nobody made in time: no worker
// ran, or the database was away. Stored; never renamed.
type MissedRule string

// Missed rules.
const (
	MissedOnce MissedRule = "once" // one run, for the last of them; the default
	MissedSkip MissedRule = "skip" // none
	MissedAll  MissedRule = "all"  // one run each, for the last CatchUp of them
)

// OverlapRule says what a fire does while a run of an earlier one, or a retry
// of it, has not ended. Stored; never renamed.
type OverlapRule string

// Overlap rules.
const (
	OverlapSkip  OverlapRule = "skip"  // it makes no run; the default but for MissedAll
	OverlapAllow OverlapRule = "allow" // it makes its run beside the other
)

// Bounds of schedules.
const (
	// FireGrace is how late a fire may be without being missed.
	FireGrace = 30 * time.Second
	// FireAgain is how long a schedule that could not fire is left alone.
	FireAgain = time.Minute
	// DefaultCatchUp and MaxCatchUp are for MissedAll.
	DefaultCatchUp = 100
	MaxCatchUp     = 1000
)

// ScheduleID names a schedule.
type ScheduleID struct{ Tenant, Name string }

func (id ScheduleID) String() string { return id.Tenant + "/" + id.Name }

// FireKey is the client key of the run that a fire makes: what keeps it to one.
func (id ScheduleID) FireKey(fire time.Time) string {
	return fireKey + id.Name + "@" + fire.UTC().Format(time.RFC3339)
}

const fireKey = "schedule/"

// FireOf is when the fire was due that made a run, or a run that it tries
// again; zero if no schedule did.
func FireOf(r Run) time.Time {
	key, ok := strings.CutPrefix(r.ClientKey, fireKey+r.Schedule+"@")
	if !ok || r.Schedule == "" {
		return time.Time{}
	}
	key, _, _ = strings.Cut(key, "#") // of a further attempt
	t, err := time.Parse(time.RFC3339, key)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Schedule submits a run at the times of a cron expression. Name, Cron and Run
// are required.
type Schedule struct {
	// Name is the tenant's own: 1 to 64 letters, digits, dots, - and _.
	Name string
	// Cron and TimeZone are what [ParseCron] reads; no zone is UTC.
	Cron, TimeZone string
	Missed         MissedRule
	// CatchUp is how many fires MissedAll makes up for at most, the last ones;
	// 0 = [DefaultCatchUp], at most [MaxCatchUp].
	CatchUp int
	Overlap OverlapRule
	// Run is what each fire submits. It has no ID, ClientKey, SessionID, Parent,
	// Root, DueAt, Deadline, Trace and Schedule: these belong to one run.
	Run Submission
}

var scheduleName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Check fills in the defaults and returns when the schedule fires, or
// [ErrInvalidSchedule] with what to write instead.
func (s *Schedule) Check() (Cron, error) {
	if s.Missed == "" {
		s.Missed = MissedOnce
	}
	if s.CatchUp == 0 {
		s.CatchUp = DefaultCatchUp
	}
	if s.Overlap == "" {
		s.Overlap = OverlapSkip
		if s.Missed == MissedAll {
			s.Overlap = OverlapAllow
		}
	}
	if s.TimeZone == "" {
		s.TimeZone = "UTC"
	}
	spec, err := ParseCron(s.Cron, s.TimeZone)
	r := s.Run
	switch {
	case err != nil:
	case !scheduleName.MatchString(s.Name):
		err = fmt.Errorf("name %q: want 1 to 64 letters, digits, dots, - or _", s.Name)
	case s.Missed != MissedOnce && s.Missed != MissedSkip && s.Missed != MissedAll:
		err = fmt.Errorf("missed %q: want once, skip or all", s.Missed)
	case s.CatchUp < 1 || s.CatchUp > MaxCatchUp:
		err = fmt.Errorf("catch-up of %d: want 1 to %d fires", s.CatchUp, MaxCatchUp)
	case s.Overlap != OverlapSkip && s.Overlap != OverlapAllow:
		err = fmt.Errorf("overlap %q: want skip or allow", s.Overlap)
	case s.Missed == MissedAll && s.Overlap == OverlapSkip:
		err = errors.New("missed all with overlap skip would make one run, since the others find it not ended: want overlap allow (with a concurrency key and a limit of its queue, one goes after the other), or missed once")
	case !r.ID.IsZero(), r.ClientKey != "", r.SessionID != "", !r.Parent.IsZero(), !r.Root.IsZero(), !r.DueAt.IsZero(), !r.Deadline.IsZero(), r.Trace != "", r.Schedule != "":
		err = errors.New("id, client key, session, parent, root, due time, deadline, trace and schedule belong to one run: leave them out")
	}
	if err != nil {
		return Cron{}, fmt.Errorf("%w: %w", ErrInvalidSchedule, err)
	}
	return spec, nil
}

// ID names the schedule.
func (s Schedule) ID() ScheduleID { return ScheduleID{s.Run.Tenant, s.Name} }

// ScheduleState is a schedule as it stands.
type ScheduleState struct {
	Schedule
	// NextFire is when it is due; zero = never again. It is in the past while
	// nobody has fired it yet, or it cannot fire.
	NextFire time.Time
	// LastFire made LastRun; zero = it has made none yet.
	LastFire time.Time
	LastRun  events.RunID
	// Skipped is how many fires made no run of their own since it was created,
	// SkippedAt when that was last noticed, and SkippedWhy the reason.
	Skipped    int64
	SkippedAt  time.Time
	SkippedWhy string
	Paused     Pause
	// Error says why it could not fire at ErrorAt; empty = nothing is wrong. It
	// stays due, is tried again after [FireAgain], and then its missed rule holds.
	Error   string
	ErrorAt time.Time

	CreatedBy, UpdatedBy string
	CreatedAt, UpdatedAt time.Time
}

// ScheduleFilter selects schedules; zero fields select all.
type ScheduleFilter struct {
	Tenant, Name string
	Limit        int        // 0 = 100
	After        ScheduleID // keyset: the last one seen
}

// Fired is what became of a schedule that was due.
type Fired struct {
	ScheduleID
	Queue string
	// Runs were made, for the earliest fire first.
	Runs []FiredRun
	// Skipped fires made no run of their own, and Why.
	Skipped int
	Why     string
	// Err is why it could not fire: [ScheduleState.Error] says it too.
	Err error
}

// FiredRun is the run of a fire.
type FiredRun struct {
	Fire time.Time
	Run  events.RunID
}

// Schedules submit runs at set times. Each fire makes at most one run, whoever
// fires it, however often, and whatever crashes. by is the authenticated
// caller, as in [Decision]; what was done is in [Queues.Acts], with kind
// "schedule" and the name TENANT/NAME. Safe for concurrent use.
type Schedules interface {
	// PutSchedule makes a schedule or changes it. Its next fire is the first after
	// now if Cron or TimeZone is new; otherwise what is due stays due. A pause stays.
	// Error: [ErrInvalidSchedule].
	PutSchedule(ctx context.Context, s Schedule, by string) (ScheduleState, error)
	// Schedules lists them by tenant and name.
	Schedules(ctx context.Context, f ScheduleFilter) ([]ScheduleState, error)
	// PauseSchedule stops its fires. The first pause stands: p is the one that
	// does, and done whether it was this one. Error: [ErrNotFound].
	PauseSchedule(ctx context.Context, id ScheduleID, by, reason string) (p Pause, done bool, err error)
	// ResumeSchedule lets it fire again, from the first fire after now on: what it
	// would have fired meanwhile is not missed. Errors: [ErrNotFound], [ErrNotPaused].
	ResumeSchedule(ctx context.Context, id ScheduleID, by, reason string) (ScheduleState, error)
	// DeleteSchedule ends it. Its runs go on. Error: [ErrNotFound].
	DeleteSchedule(ctx context.Context, id ScheduleID, by, reason string) error
	// FireDue fires what is due in database time, up to limit schedules (0 = 100),
	// each in a transaction of its own, and says what came of them. What another
	// process is firing is left to it. The error is one of the database: what was
	// fired before it is returned too.
	FireDue(ctx context.Context, limit int) ([]Fired, error)
}
