package store

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/text"
)

// RunState tells whether a run's outcome is recorded.
type RunState string

// The states of a run.
const (
	Running RunState = "running"
	Settled RunState = "settled"
)

// Run is one execution caused by one trigger in one session.
type Run struct {
	ID               string          `json:"id"`
	OfficeKey        string          `json:"office_key"`
	SessionKey       string          `json:"session_key"`
	SessionID        string          `json:"session_id"`
	Epoch            int             `json:"epoch"`
	Trigger          run.Trigger     `json:"trigger"`
	Word             string          `json:"word,omitempty"`
	TriggerMessageID string          `json:"trigger_message_id"`
	Attempt          int             `json:"attempt"`
	Reply            json.RawMessage `json:"-"`
	WorkflowID       string          `json:"workflow_id"`
	OriginRunID      string          `json:"-"`
	TemporalRunID    string          `json:"temporal_run_id"`
	State            RunState        `json:"state"`
	Outcome          run.Outcome     `json:"outcome,omitempty"`
	ErrorCode        fault.Code      `json:"error_code,omitempty"`
	ErrorText        string          `json:"error_text,omitempty"`
	Model            string          `json:"model"`
	FirstSeq         int64           `json:"first_seq"`
	LastSeq          int64           `json:"last_seq"`
	Steps            int             `json:"steps"`
	Usage            llm.Usage       `json:"usage"`
	CostMicros       *int64          `json:"cost_micros,omitempty"`
	ModelMS          int64           `json:"model_ms"`
	ToolMS           int64           `json:"tool_ms"`
	ReceivedAt       time.Time       `json:"received_at"`
	StartedAt        time.Time       `json:"started_at"`
	SettledAt        *time.Time      `json:"settled_at,omitempty"`
	Marked           bool            `json:"-"` // its message carried a sign that it waits
}

const runColumns = `id, office_key, session_key, session_id, epoch, trigger, word, trigger_message_id, attempt, reply, workflow_id,
	origin_run_id, temporal_run_id, state, coalesce(outcome, ''), coalesce(error_code, ''), coalesce(error_text, ''), model,
	first_seq, last_seq, steps, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_micros, model_ms, tool_ms,
	received_at, started_at, settled_at, marked`

func scanRun(row pgx.Row) (Run, error) {
	var r Run
	err := row.Scan(&r.ID, &r.OfficeKey, &r.SessionKey, &r.SessionID, &r.Epoch, &r.Trigger, &r.Word, &r.TriggerMessageID, &r.Attempt,
		&r.Reply, &r.WorkflowID, &r.OriginRunID, &r.TemporalRunID, &r.State, &r.Outcome, &r.ErrorCode, &r.ErrorText, &r.Model,
		&r.FirstSeq, &r.LastSeq, &r.Steps, &r.Usage.Input, &r.Usage.Output, &r.Usage.CacheRead, &r.Usage.CacheWrite, &r.CostMicros,
		&r.ModelMS, &r.ToolMS, &r.ReceivedAt, &r.StartedAt, &r.SettledAt, &r.Marked)
	return r, err
}

func insertRun(batch *pgx.Batch, r Run) {
	batch.Queue(`
		INSERT INTO runs (id, office_key, session_key, session_id, epoch, trigger, word, trigger_message_id, attempt, reply,
			workflow_id, origin_run_id, temporal_run_id, state, model, first_seq, last_seq, received_at, marked)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'running', $14, $15, $16, $17, $18)`,
		r.ID, r.OfficeKey, r.SessionKey, r.SessionID, r.Epoch, r.Trigger, r.Word, r.TriggerMessageID, r.Attempt, r.Reply,
		r.WorkflowID, r.OriginRunID, r.TemporalRunID, r.Model, r.FirstSeq, r.LastSeq, r.ReceivedAt, r.Marked)
}

// Run finds a run by id; not_found when there is none.
func (s *Store) Run(ctx context.Context, id string) (Run, error) {
	return runByID(ctx, s.pool, id)
}

func runByID(ctx context.Context, q querier, id string) (Run, error) {
	r, err := scanRun(q.QueryRow(ctx, `SELECT `+runColumns+` FROM runs WHERE id = $1`, id))
	if ok, err := found(err); !ok {
		if err != nil {
			return Run{}, err
		}
		return Run{}, fault.New(fault.NotFound, "there is no run %s", id)
	}
	return r, nil
}

// OpenRun finds the run that a session has open; false when it is idle.
func (s *Store) OpenRun(ctx context.Context, officeKey, sessionKey string) (Run, bool, error) {
	r, err := scanRun(s.pool.QueryRow(ctx, `
		SELECT `+runColumns+` FROM runs WHERE office_key = $1 AND session_key = $2 AND state = 'running'`, officeKey, sessionKey))
	ok, err := found(err)
	return r, ok, err
}

// RunsAt lists what an office's sessions were busy with at a moment of the past, one run a session: the run that was
// open then, or, where its trigger had come but none had begun, the one that began next. Some may have settled since.
func (s *Store) RunsAt(ctx context.Context, officeKey string, at time.Time) ([]Run, error) {
	return s.listRuns(ctx, `
		SELECT DISTINCT ON (session_key) `+runColumns+` FROM runs
		WHERE office_key = $1 AND received_at < $2
		  AND (state = 'running' OR started_at > $2::timestamptz - interval '2 days' AND settled_at > $2)
		ORDER BY session_key, started_at`, officeKey, at)
}

// RunFilter narrows a list of runs; empty fields do not.
type RunFilter struct {
	OfficeKey string
	SessionID string
	State     RunState
	Limit     int
}

// Runs lists runs, newest first.
func (s *Store) Runs(ctx context.Context, f RunFilter) ([]Run, error) {
	return s.listRuns(ctx, `
		SELECT `+runColumns+` FROM runs
		WHERE ($1 = '' OR office_key = $1) AND ($2 = '' OR session_id = $2) AND ($3 = '' OR state = $3)
		ORDER BY started_at DESC LIMIT $4`, f.OfficeKey, f.SessionID, string(f.State), f.Limit)
}

// Spent sums what the runs of an office cost that started since the given moment, in millionths of a US dollar.
func (s *Store) Spent(ctx context.Context, officeKey string, since time.Time) (micros int64, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT coalesce(sum(cost_micros), 0)::bigint FROM runs WHERE office_key = $1 AND started_at >= $2`, officeKey, since).Scan(&micros)
	return micros, translate(err)
}

// Unchecked takes the open runs that no reconciler has looked at for the given time, and marks them looked at.
func (s *Store) Unchecked(ctx context.Context, age time.Duration, limit int) ([]Run, error) {
	var runs []Run
	err := s.tx(ctx, "check", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			UPDATE runs SET checked_at = clock_timestamp()
			WHERE id IN (
				SELECT id FROM runs WHERE state = 'running' AND checked_at < clock_timestamp() - make_interval(secs => $1)
				ORDER BY checked_at LIMIT $2 FOR UPDATE SKIP LOCKED)
			RETURNING `+runColumns, age.Seconds(), limit)
		if err != nil {
			return err
		}
		runs, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Run, error) { return scanRun(row) })
		return err
	})
	return runs, err
}

func (s *Store) listRuns(ctx context.Context, sql string, args ...any) ([]Run, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, translate(err)
	}
	runs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Run, error) { return scanRun(row) })
	return runs, translate(err)
}

// Continued notes that a run goes on in another Temporal execution (its history outgrew the first).
func (s *Store) Continued(ctx context.Context, id string, by Execution) error {
	_, err := s.exec(ctx, "continued", `
		UPDATE runs SET origin_run_id = $2, temporal_run_id = $3 WHERE id = $1 AND state = 'running'`, id, by.OriginRun, by.RunID)
	return translate(err)
}

// NoteError keeps what an operator should know about a failure of a run that may still succeed.
func (s *Store) NoteError(ctx context.Context, id string, code fault.Code, what string) error {
	_, err := s.exec(ctx, "note", `UPDATE runs SET error_code = $2, error_text = $3 WHERE id = $1 AND state = 'running'`,
		id, string(code), text.Storable(what))
	return translate(err)
}

// Settlement is how a run ended.
type Settlement struct {
	Outcome   run.Outcome
	ErrorCode fault.Code
	ErrorText string // for operators
}

// After is what a settlement found about what follows.
type After struct {
	Run     Run
	Changed bool     // false: it was settled before, and nothing was written
	Waiting bool     // another trigger of the session waits
	Woken   []string // workflows that waited for this run
}

// settle records a run's outcome and closes tool calls that were left unanswered, so that a fork of it and the next
// run see a whole conversation.
func settle(ctx context.Context, tx pgx.Tx, id string, with Settlement) (After, error) {
	r, err := scanRun(tx.QueryRow(ctx, `SELECT `+runColumns+` FROM runs WHERE id = $1 FOR UPDATE`, id))
	if ok, err := found(err); !ok {
		if err != nil {
			return After{}, err
		}
		return After{}, fault.New(fault.NotFound, "there is no run %s", id)
	}
	after := After{Run: r}
	if r.State != Settled {
		if err := closeCalls(ctx, tx, &r); err != nil {
			return After{}, err
		}
		_, err := tx.Exec(ctx, `
			UPDATE runs SET state = 'settled', outcome = $2, error_code = nullif($3, ''),
				error_text = CASE WHEN $2 = 'failed' THEN coalesce(nullif($4, ''), error_text) END,
				last_seq = $5, settled_at = clock_timestamp()
			WHERE id = $1`, id, string(with.Outcome), string(with.ErrorCode), text.Storable(with.ErrorText), r.LastSeq)
		if err != nil {
			return After{}, err
		}
		r.State, r.Outcome, r.ErrorCode = Settled, with.Outcome, with.ErrorCode
		after.Run, after.Changed = r, true
	}
	batch := &pgx.Batch{}
	batch.Queue(`SELECT EXISTS (SELECT 1 FROM inbox WHERE office_key = $1 AND session_key = $2 AND kind = 'trigger' AND state = 'waiting')`,
		r.OfficeKey, r.SessionKey).QueryRow(func(row pgx.Row) error { return row.Scan(&after.Waiting) })
	batch.Queue(`DELETE FROM run_waits WHERE run_id = $1 RETURNING workflow_id`, id).Query(func(rows pgx.Rows) error {
		var err error
		after.Woken, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	batch.Queue(`SELECT pg_notify('mikan_run', $1)`, id)
	return after, tx.SendBatch(ctx, batch).Close()
}

// InterruptedResult is what the model reads about a call that never came back.
const InterruptedResult = "The call was interrupted before it returned. It may have had effects; check before you repeat it."

// closeCalls gives every unanswered tool call of a run an error result and moves the run's last entry. A run whose
// session was reset in the meantime is left as it is: nothing of its epoch is ever sent to a model again.
func closeCalls(ctx context.Context, tx pgx.Tx, r *Run) error {
	open, err := openCalls(ctx, tx, r.SessionID, r.ID)
	if err != nil || len(open) == 0 {
		return err
	}
	var epoch int
	if err := tx.QueryRow(ctx, `SELECT epoch FROM sessions WHERE id = $1 FOR UPDATE`, r.SessionID).Scan(&epoch); err != nil {
		return err
	}
	if epoch != r.Epoch {
		return nil
	}
	if err := appendEntries(ctx, tx, r.SessionID, r.Epoch, open); err != nil {
		return err
	}
	r.LastSeq = open[len(open)-1].Seq
	return nil
}

// openCalls makes the results for the calls of a run that have none. Only its newest assistant turn can have such
// calls: every model call closes those of the turn before it.
func openCalls(ctx context.Context, tx pgx.Tx, sessionID, runID string) ([]Entry, error) {
	rows, err := tx.Query(ctx, `
		SELECT `+entryColumns+` FROM entries WHERE session_id = $1 AND run_id = $2 AND kind = 'assistant'
		ORDER BY seq DESC LIMIT 1`, sessionID, runID)
	if err != nil {
		return nil, err
	}
	turns, err := pgx.CollectRows(rows, scanEntry)
	if err != nil || len(turns) == 0 {
		return nil, err
	}
	calls := turns[0].Body.Calls()
	if len(calls) == 0 {
		return nil, nil
	}
	slots := make([]string, len(calls))
	for i := range calls {
		slots[i] = CallSlot(turns[0].Slot, i)
	}
	rows, err = tx.Query(ctx, `SELECT slot FROM entries WHERE run_id = $1 AND slot = ANY($2)`, runID, slots)
	if err != nil {
		return nil, err
	}
	answered, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	var open []Entry
	for i, call := range calls {
		if !slices.Contains(answered, slots[i]) {
			open = append(open, ResultEntry(runID, slots[i], call.CallID, InterruptedResult, Unanswered))
		}
	}
	return open, nil
}

// Settlements tells, without saying which, whenever some run has settled, until stop is called. Losing the connection
// loses news: the caller must also look by itself now and then.
func (s *Store) Settlements(ctx context.Context) (news <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	signal := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return
		}
		// The connection has listened and is not given back to the pool.
		raw := conn.Hijack()
		defer func() {
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = raw.Close(closing)
		}()
		if _, err := raw.Exec(ctx, `LISTEN mikan_run`); err != nil {
			return
		}
		for {
			if _, err := raw.WaitForNotification(ctx); err != nil {
				return
			}
			select {
			case signal <- struct{}{}:
			default:
			}
		}
	}()
	return signal, func() { cancel(); <-done }
}
