package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/memory"
	"github.com/geminixiang/mikan/internal/text"
)

// CaptureState is the step of a capture that is to be taken next.
type CaptureState string

// The states of a capture.
const (
	CaptureGate    CaptureState = "gate"
	CaptureExtract CaptureState = "extract"
	CaptureApply   CaptureState = "apply"
	CaptureEnded   CaptureState = "ended"
)

// CaptureOutcome is how a capture ended.
type CaptureOutcome string

// The outcomes of captures.
const (
	CaptureSkipped   CaptureOutcome = "skipped"   // there was nothing to judge
	CaptureBelow     CaptureOutcome = "below"     // the gate's probability was below the threshold
	CaptureNothing   CaptureOutcome = "nothing"   // the model found nothing to keep
	CaptureRefused   CaptureOutcome = "refused"   // the model's answer broke the rules; nothing of it was used
	CaptureUnchanged CaptureOutcome = "unchanged" // no operation was needed or allowed
	CaptureFull      CaptureOutcome = "full"      // the section is at its limit
	CaptureBlocked   CaptureOutcome = "blocked"   // MEMORY.md may not be written: a link, read-only, not a file, too large
	CaptureWritten   CaptureOutcome = "written"
	CaptureFailed    CaptureOutcome = "failed"
)

// Capture is everything recorded about one memory capture. Its id is its run's.
type Capture struct {
	RunID       string             `json:"run_id"`
	OfficeKey   string             `json:"office_key"`
	MessageID   string             `json:"message_id"`
	State       CaptureState       `json:"state"`
	Outcome     CaptureOutcome     `json:"outcome,omitempty"`
	GateModel   string             `json:"gate_model,omitempty"`
	Probability *float64           `json:"probability,omitempty"`
	Threshold   *float64           `json:"threshold,omitempty"`
	Memory      *string            `json:"-"`
	Forgotten   []string           `json:"-"`
	Operations  []memory.Operation `json:"operations,omitempty"`
	Effects     []memory.Effect    `json:"effects,omitempty"`
	Usage       llm.Usage          `json:"usage"`
	ErrorCode   fault.Code         `json:"error_code,omitempty"`
	ErrorText   string             `json:"error_text,omitempty"`
	CreatedAt   time.Time          `json:"created_at"`
	EndedAt     *time.Time         `json:"ended_at,omitempty"`
	RevertedAt  *time.Time         `json:"reverted_at,omitempty"`
	Undone      []memory.Undo      `json:"undone,omitempty"`
}

const captureColumns = `run_id, office_key, message_id, state, coalesce(outcome, ''), gate_model, probability, threshold, memory, forgotten,
	coalesce(operations, '[]'), effects, input_tokens, output_tokens, coalesce(error_code, ''), coalesce(error_text, ''), created_at, ended_at,
	reverted_at, coalesce(undone, '[]')`

func scanCapture(row pgx.CollectableRow) (Capture, error) {
	var c Capture
	err := row.Scan(&c.RunID, &c.OfficeKey, &c.MessageID, &c.State, &c.Outcome, &c.GateModel, &c.Probability, &c.Threshold, &c.Memory,
		&c.Forgotten, &c.Operations, &c.Effects, &c.Usage.Input, &c.Usage.Output, &c.ErrorCode, &c.ErrorText, &c.CreatedAt, &c.EndedAt,
		&c.RevertedAt, &c.Undone)
	return c, err
}

func captures(ctx context.Context, q querier, sql string, args ...any) ([]Capture, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, translate(err)
	}
	found, err := pgx.CollectRows(rows, scanCapture)
	return found, translate(err)
}

// BeginCapture opens the capture of a run, or finds it. Errors: not_found when there is no such run.
func (s *Store) BeginCapture(ctx context.Context, runID string) (capture Capture, err error) {
	err = s.tx(ctx, "capture_begin", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `
			INSERT INTO captures (run_id, office_key, message_id) SELECT id, office_key, trigger_message_id FROM runs WHERE id = $1
			ON CONFLICT DO NOTHING`, runID); err != nil {
			return err
		}
		capture, err = captureOf(ctx, tx, runID)
		return err
	})
	return capture, err
}

// Capture finds the capture of a run; not_found when there is none.
func (s *Store) Capture(ctx context.Context, runID string) (Capture, error) {
	return captureOf(ctx, s.pool, runID)
}

func captureOf(ctx context.Context, q querier, runID string) (Capture, error) {
	found, err := captures(ctx, q, `SELECT `+captureColumns+` FROM captures WHERE run_id = $1`, runID)
	if err != nil {
		return Capture{}, err
	}
	if len(found) == 0 {
		return Capture{}, fault.New(fault.NotFound, "there is no capture %s", runID)
	}
	return found[0], nil
}

// shortestCaptureID is how much of a capture's id names it.
const shortestCaptureID = 8

// FindCapture finds a capture by its id or the beginning of it; invalid when that is short or ambiguous.
func (s *Store) FindCapture(ctx context.Context, prefix string) (Capture, error) {
	if len(prefix) < shortestCaptureID {
		return Capture{}, fault.New(fault.Invalid, "%q is too short; a capture is named by at least %d characters of its id", prefix, shortestCaptureID)
	}
	found, err := captures(ctx, s.pool, `SELECT `+captureColumns+` FROM captures WHERE starts_with(run_id, $1) LIMIT 2`, prefix)
	switch {
	case err != nil:
		return Capture{}, err
	case len(found) == 0:
		return Capture{}, fault.New(fault.NotFound, "there is no capture %s", prefix)
	case len(found) > 1:
		return Capture{}, fault.New(fault.Invalid, "several captures begin with %s", prefix)
	}
	return found[0], nil
}

// Captures lists an office's captures, newest first.
func (s *Store) Captures(ctx context.Context, officeKey string, limit int) ([]Capture, error) {
	return captures(ctx, s.pool, `
		SELECT `+captureColumns+` FROM captures WHERE office_key = $1 ORDER BY created_at DESC, run_id LIMIT $2`, officeKey, limit)
}

// CapturedSince lists the captures of an office that ended since a moment and wrote something, oldest first.
func (s *Store) CapturedSince(ctx context.Context, officeKey string, since time.Time) ([]Capture, error) {
	return captures(ctx, s.pool, `
		SELECT `+captureColumns+` FROM captures
		WHERE office_key = $1 AND created_at > $2::timestamptz - interval '1 day' AND ended_at >= $2 AND outcome = 'written'
		ORDER BY ended_at`, officeKey, since)
}

// Exchange reads what a capture looks at; false when there is no text to judge, or the message was deleted.
func (s *Store) Exchange(ctx context.Context, runID string) (memory.Exchange, bool, error) {
	var e memory.Exchange
	var body []byte
	err := s.pool.QueryRow(ctx, `
		SELECT CASE WHEN c.deleted THEN '' ELSE c.text END, CASE WHEN r.outcome = 'answered' THEN (
			SELECT body FROM entries e WHERE e.session_id = r.session_id AND e.run_id = r.id AND e.kind = 'assistant' ORDER BY seq DESC LIMIT 1) END
		FROM runs r JOIN chat_log c ON c.office_key = r.office_key AND c.message_id = r.trigger_message_id AND c.newest
		WHERE r.id = $1`, runID).Scan(&e.Message, &body)
	if ok, err := found(err); !ok {
		return e, false, err
	}
	if body != nil {
		var turn Body
		if err := json.Unmarshal(body, &turn); err != nil {
			return e, false, fault.Wrap(fault.Internal, err, "an entry cannot be read")
		}
		e.Answer = turn.Text()
	}
	return e, memory.Says(e.Message), nil
}

// JudgedCapture is what the gate found.
type JudgedCapture struct {
	Model       string
	Probability float64
	Threshold   float64
	Usage       llm.Usage
}

// Judged records the gate's judgement, once.
func (s *Store) Judged(ctx context.Context, runID string, j JudgedCapture) error {
	return s.tx(ctx, "capture_gate", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE captures SET state = 'extract', gate_model = $2, probability = $3, threshold = $4,
				input_tokens = input_tokens + $5, output_tokens = output_tokens + $6, error_code = NULL, error_text = NULL
			WHERE run_id = $1 AND state = 'gate'`, runID, j.Model, j.Probability, j.Threshold, j.Usage.Input, j.Usage.Output)
		return err
	})
}

// memoryLease is how long a capture that says nothing keeps an office's memory to itself: longer than any of its
// steps with their retries.
const memoryLease = 5 * time.Minute

// MemoryLease is the right to change an office's memory, with its fencing token.
type MemoryLease struct {
	OfficeKey string
	RunID     string
	Token     int64
}

func (l MemoryLease) name() string { return "memory/" + l.OfficeKey }

// LeaseMemory takes an office's memory for a capture; false while another has it. Asked again by its holder it is
// prolonged.
func (s *Store) LeaseMemory(ctx context.Context, officeKey, runID string) (lease MemoryLease, held bool, err error) {
	lease = MemoryLease{OfficeKey: officeKey, RunID: runID}
	err = s.tx(ctx, "capture_lease", func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			INSERT INTO leases (name, holder, expires_at) VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at,
				token = leases.token + CASE WHEN leases.holder = excluded.holder THEN 0 ELSE 1 END
			WHERE leases.holder = excluded.holder OR leases.expires_at <= clock_timestamp()
			RETURNING token`, lease.name(), runID, memoryLease.Seconds()).Scan(&lease.Token)
		held, err = found(err)
		return err
	})
	return lease, held, err
}

// fence prolongs a lease and refuses, with conflict, who has lost it.
func (l MemoryLease) fence(ctx context.Context, tx pgx.Tx) error {
	tag, err := tx.Exec(ctx, `
		UPDATE leases SET expires_at = clock_timestamp() + make_interval(secs => $4) WHERE name = $1 AND holder = $2 AND token = $3`,
		l.name(), l.RunID, l.Token, memoryLease.Seconds())
	if err == nil && tag.RowsAffected() == 0 {
		return fault.New(fault.Conflict, "another capture has taken the office's memory")
	}
	return err
}

// KeepMemory keeps what extraction will read. It is refused with conflict, like everything below, when the lease is lost.
func (s *Store) KeepMemory(ctx context.Context, l MemoryLease, content string, forgotten []string) error {
	return s.captureStep(ctx, "capture_read", l, `
		UPDATE captures SET memory = $2, forgotten = $3 WHERE run_id = $1 AND state = 'extract'`, text.Storable(content), append([]string{}, forgotten...))
}

// Extracted records the operations that may be carried out and those that may not.
func (s *Store) Extracted(ctx context.Context, l MemoryLease, operations []memory.Operation, withheld []memory.Effect, usage llm.Usage) error {
	return s.captureStep(ctx, "capture_extract", l, `
		UPDATE captures SET state = 'apply', operations = $2, effects = $3, memory = NULL, error_code = NULL, error_text = NULL,
			input_tokens = input_tokens + $4, output_tokens = output_tokens + $5
		WHERE run_id = $1 AND state = 'extract'`, append([]memory.Operation{}, operations...), append([]memory.Effect{}, withheld...), usage.Input, usage.Output)
}

// IntendCapture records what the file is about to hold, so that a repeated attempt knows its own lines.
func (s *Store) IntendCapture(ctx context.Context, l MemoryLease, effects []memory.Effect) error {
	return s.captureStep(ctx, "capture_intend", l, `UPDATE captures SET effects = $2 WHERE run_id = $1 AND state = 'apply'`, append([]memory.Effect{}, effects...))
}

func (s *Store) captureStep(ctx context.Context, name string, l MemoryLease, sql string, args ...any) error {
	return s.tx(ctx, name, func(tx pgx.Tx) error {
		if err := l.fence(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql, append([]any{l.RunID}, args...)...)
		return err
	})
}

// CaptureEnding is how a capture ended, with the reason where there is one to give.
type CaptureEnding struct {
	Outcome CaptureOutcome
	Effects []memory.Effect // nil: those recorded before
	Code    fault.Code
	Text    string // for operators; empty: what was noted last
	Usage   llm.Usage
}

// EndCapture records an outcome, once, and gives the office's memory free. It returns the recorded outcome and whether
// this call recorded it.
func (s *Store) EndCapture(ctx context.Context, runID string, end CaptureEnding) (outcome CaptureOutcome, changed bool, err error) {
	err = s.tx(ctx, "capture_end", func(tx pgx.Tx) error {
		var effects any
		if end.Effects != nil {
			effects = end.Effects
		}
		tag, err := tx.Exec(ctx, `
			UPDATE captures SET state = 'ended', outcome = $2, effects = CASE WHEN $2 = 'written' OR $3::jsonb IS NOT NULL THEN coalesce($3, effects) ELSE
					(SELECT coalesce(jsonb_agg(e), '[]') FROM jsonb_array_elements(effects) e WHERE NOT e ? 'now') END,
				error_code = coalesce(nullif($4, ''), error_code), error_text = coalesce(nullif($5, ''), error_text), memory = NULL, forgotten = '[]',
				input_tokens = input_tokens + $6, output_tokens = output_tokens + $7, ended_at = clock_timestamp()
			WHERE run_id = $1 AND state <> 'ended'`,
			runID, string(end.Outcome), effects, string(end.Code), text.Storable(end.Text), end.Usage.Input, end.Usage.Output)
		if err != nil {
			return err
		}
		changed = tag.RowsAffected() == 1
		if _, err := tx.Exec(ctx, `
			UPDATE leases SET expires_at = '-infinity'
			WHERE name = 'memory/' || (SELECT office_key FROM captures WHERE run_id = $1) AND holder = $1`, runID); err != nil {
			return err
		}
		capture, err := captureOf(ctx, tx, runID)
		outcome = capture.Outcome
		return err
	})
	return outcome, changed, err
}

// NoteCapture keeps what an operator should know about a failure of a capture that may still succeed.
func (s *Store) NoteCapture(ctx context.Context, runID string, code fault.Code, what string) error {
	_, err := s.exec(ctx, "note", `UPDATE captures SET error_code = $2, error_text = $3 WHERE run_id = $1 AND state <> 'ended'`,
		runID, string(code), text.Storable(what))
	return translate(err)
}

// Reverted records that a capture was taken back, and what became of its lines. It is refused with conflict when it was
// before.
func (s *Store) Reverted(ctx context.Context, runID string, undone []memory.Undo) error {
	return s.tx(ctx, "capture_revert", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE captures SET reverted_at = clock_timestamp(), undone = $2 WHERE run_id = $1 AND reverted_at IS NULL`, runID, append([]memory.Undo{}, undone...))
		if err == nil && tag.RowsAffected() == 0 {
			return fault.New(fault.Conflict, "the capture was reverted before")
		}
		return err
	})
}
