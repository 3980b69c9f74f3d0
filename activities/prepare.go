// Package activities is what touches the world: sessions, the model, tools, delivery. Each concern is one struct with
// its dependencies as fields. Inputs and results carry ids and counts; content stays in Postgres.
package activities

import (
	"cmp"
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/session"
	"github.com/geminixiang/mikan/internal/settings"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// Sessions opens sessions and claims triggers. Its activities are local: keyed SQL that may run again.
type Sessions struct {
	Store    *store.Store
	Settings SettingsReader
	Model    string // of offices that choose none: provider/model[:thinking]
	Metrics  *telemetry.Metrics
}

// SettingsReader tells what is in force in an office now.
type SettingsReader func(ctx context.Context, officeKey string) (settings.Office, error)

// Patience tells whether a thread waits for the run that it grew from.
type Patience string

// ForkNow forks at the last entry there is; the zero value waits.
const ForkNow Patience = "now"

// PrepareInput names the execution that wants to work on a session.
type PrepareInput struct {
	run.Input
	OriginRun string   `json:"origin"`
	Patience  Patience `json:"patience,omitempty"`
}

// PreparedKind tells what Prepare found.
type PreparedKind string

// What Prepare finds.
const (
	Ready    PreparedKind = "ready"    // Run is to be executed
	Idle     PreparedKind = "idle"     // nothing waits
	Orphaned PreparedKind = "orphaned" // settle the run Orphan first, then prepare again
	Blocked  PreparedKind = "blocked"  // wait for another run to settle, then prepare again
	Dropped  PreparedKind = "dropped"  // the trigger was deleted; prepare again
)

// Prepared is what Prepare found.
type Prepared struct {
	Kind   PreparedKind `json:"kind"`
	Run    Claimed      `json:"run,omitzero"`
	Orphan string       `json:"orphan,omitempty"`
}

// Claimed is what the workflow needs to know about its run.
type Claimed struct {
	ID      string      `json:"id"`
	Trigger run.Trigger `json:"trigger"`
	Model   string      `json:"model"`
	Word    string      `json:"word,omitempty"`  // of a command
	Files   bool        `json:"files,omitempty"` // files of its messages are to be fetched first
}

// Prepare claims the oldest waiting trigger of a session. It rejects a session key that does not belong to the office:
// whoever started the workflow may not be intake.
func (s *Sessions) Prepare(ctx context.Context, in PrepareInput) (Prepared, error) {
	prepared, err := s.prepare(ctx, in)
	return prepared, toTemporal(err, in.SessionKey)
}

func (s *Sessions) prepare(ctx context.Context, in PrepareInput) (Prepared, error) {
	if err := s.belongs(ctx, in.Input); err != nil {
		return Prepared{}, err
	}
	execution := activity.GetInfo(ctx).WorkflowExecution
	by := store.Execution{WorkflowID: execution.ID, OriginRun: in.OriginRun, RunID: execution.RunID}
	if in.RunID != "" {
		if err := s.Store.Continued(ctx, in.RunID, by); err != nil {
			return Prepared{}, err
		}
	}
	patience := store.Wait
	if in.Patience == ForkNow {
		patience = store.Now
	}
	inForce, err := s.Settings(ctx, in.OfficeKey)
	if err != nil {
		return Prepared{}, err
	}
	with := store.Terms{Model: cmp.Or(inForce.Model, s.Model), Zone: inForce.Zone}
	claim, err := s.Store.Claim(ctx, store.Address{OfficeKey: in.OfficeKey, SessionKey: in.SessionKey}, by, patience, with)
	if err != nil {
		return Prepared{}, err
	}
	switch claim.Kind {
	case store.ClaimedRun:
		s.Metrics.Claimed(office.Platform(run.PlatformOf(in.OfficeKey)), time.Since(claim.Run.ReceivedAt))
		return Prepared{Kind: Ready, Run: Claimed{ID: claim.Run.ID, Trigger: claim.Run.Trigger, Model: claim.Run.Model, Word: claim.Run.Word, Files: claim.Files}}, nil
	case store.OrphanedRun:
		return Prepared{Kind: Orphaned, Orphan: claim.Run.ID}, nil
	case store.BlockedRun:
		return Prepared{Kind: Blocked}, nil
	case store.DroppedTrigger:
		return Prepared{Kind: Dropped}, nil
	}
	return Prepared{Kind: Idle}, nil
}

func (s *Sessions) belongs(ctx context.Context, in run.Input) error {
	home, err := s.Store.Home(ctx, in.OfficeKey)
	if err != nil {
		return err
	}
	key, err := session.ParseKey(in.SessionKey)
	if err == nil {
		err = key.BelongsTo(home.ConversationID)
	}
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "the session key is refused")
	}
	return nil
}
