package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
)

// ThinkSlot names the assistant entry of a run's step, from 1.
func ThinkSlot(step int) string { return fmt.Sprintf("think/%d", step) }

// CallSlot names the result of the i-th tool call (from 0) of an assistant entry.
func CallSlot(thinkSlot string, i int) string {
	return fmt.Sprintf("tool/%s/%d", strings.TrimPrefix(thinkSlot, "think/"), i)
}

// ResultKind tells how a tool call ended.
type ResultKind string

// The kinds of result.
const (
	Returned   ResultKind = "returned"
	Erred      ResultKind = "erred"
	Unanswered ResultKind = "unanswered" // nobody knows what it did
)

// ResultEntry makes the entry of one tool result.
func ResultEntry(runID, slot, callID, text string, kind ResultKind, images ...llm.Block) Entry {
	return Entry{Kind: EntryToolResult, RunID: runID, Slot: slot, Body: Body{Blocks: []llm.Block{{
		Kind: llm.BlockToolResult, CallID: callID, Text: text, IsError: kind != Returned, Images: images,
	}}}}
}

// Step is one attempt at a step of a run.
type Step struct {
	Run   Run
	Slot  string
	Token int64  // fences the attempt: only the newest may write
	Done  *Entry // set when an earlier attempt has written the step's entry already
	// Process is what an earlier attempt left running, if one said so. It stays until the step is done: this attempt may
	// die, too, before it has dealt with it.
	Process json.RawMessage
	// Memory is what was recalled for the run; nil before that.
	Memory *Memory
}

// BeginStep opens an attempt at a step and takes the right to write from earlier attempts. It is refused with conflict
// when the run is settled: whoever still works on it has been overtaken.
func (s *Store) BeginStep(ctx context.Context, runID, slot string) (Step, error) {
	step := Step{Slot: slot}
	// A token lost with a crash of the database makes the newest attempt's own write fail as overtaken, and it is tried
	// again.
	err := s.txUnforced(ctx, "begin_step", func(tx pgx.Tx) error {
		var entries []Entry
		known := false
		batch := &pgx.Batch{}
		batch.Queue(`SELECT `+runColumns+`, memory FROM runs WHERE id = $1`, runID).QueryRow(func(row pgx.Row) (err error) {
			step.Run, err = scanRun(longerRow{Row: row, into: &step.Memory})
			known, err = found(err)
			return err
		})
		batch.Queue(stepEntriesSQL, runID, slot).Query(func(rows pgx.Rows) (err error) {
			entries, err = pgx.CollectRows(rows, scanEntry)
			return err
		})
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		if !known {
			return fault.New(fault.NotFound, "there is no run %s", runID)
		}
		if len(entries) == 1 {
			step.Done = &entries[0]
			return nil
		}
		if step.Run.State != Running {
			return fault.New(fault.Conflict, "the run is settled already (%s)", step.Run.Outcome)
		}
		return tx.QueryRow(ctx, `
			INSERT INTO run_steps (run_id, slot, token) VALUES ($1, $2, 1)
			ON CONFLICT (run_id, slot) DO UPDATE SET token = run_steps.token + 1, started_at = clock_timestamp()
			RETURNING token, process`, runID, slot).Scan(&step.Token, &step.Process)
	})
	return step, err
}

// stepEntriesSQL finds what a step has written; there is one entry of a slot at most.
const stepEntriesSQL = `SELECT ` + entryColumns + ` FROM entries WHERE run_id = $1 AND slot = $2`

// Started notes durably that a step is about to have effects, and what process has them: after this, a later attempt
// must not repeat it. It is refused as overtaken when a later attempt has begun.
func (s *Store) Started(ctx context.Context, step Step, process any) error {
	raw, err := json.Marshal(process)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "a process cannot be recorded")
	}
	return s.tx(ctx, "tool_started", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE run_steps SET process = $4 WHERE run_id = $1 AND slot = $2 AND token = $3`, step.Run.ID, step.Slot, step.Token, raw)
		if err == nil && tag.RowsAffected() == 0 {
			return overtaken()
		}
		return err
	})
}

// errOvertaken is unavailable and not conflict: Temporal ignores what an attempt says that was overtaken by another, and
// one that lost its token with a crash of the database must be tried again.
var errOvertaken = fault.New(fault.Unavailable, "a later attempt has taken over, or the database has lost this one")

func overtaken() error { return errOvertaken }

// Overtaken tells whether an attempt was refused because it is not the newest. Only a new attempt can succeed.
func Overtaken(err error) bool { return errors.Is(err, errOvertaken) }

// Spent is what a step cost.
type Spent struct {
	Usage      llm.Usage
	CostMicros *int64 // nil: the price is unknown
	ModelMS    int64
	ToolMS     int64
}

// CommitStep writes a step's entry and what follows from it, once: when an earlier attempt's entry is there, that one is
// returned and nothing is written. Refused for an attempt that was overtaken, and with conflict where the session was
// reset or the run settled.
func (s *Store) CommitStep(ctx context.Context, step Step, spent Spent, entry Entry, following ...Entry) (Entry, error) {
	var stored Entry
	err := s.tx(ctx, "step", func(tx pgx.Tx) (err error) {
		stored, err = commitStep(ctx, tx, step, spent, entry, following...)
		return err
	})
	return stored, err
}

func commitStep(ctx context.Context, tx pgx.Tx, step Step, spent Spent, entry Entry, following ...Entry) (Entry, error) {
	entry.RunID, entry.Slot = step.Run.ID, step.Slot
	stored := append([]Entry{entry}, following...)
	var token int64
	var existing []Entry
	batch := &pgx.Batch{}
	batch.Queue(`SELECT token FROM run_steps WHERE run_id = $1 AND slot = $2 FOR UPDATE`, step.Run.ID, step.Slot).QueryRow(func(row pgx.Row) error {
		_, err := found(row.Scan(&token))
		return err
	})
	batch.Queue(stepEntriesSQL, step.Run.ID, step.Slot).Query(func(rows pgx.Rows) (err error) {
		existing, err = pgx.CollectRows(rows, scanEntry)
		return err
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return Entry{}, err
	}
	if token != step.Token {
		return Entry{}, overtaken()
	}
	if len(existing) == 1 {
		return existing[0], nil
	}
	err := appendEntries(ctx, tx, step.Run.SessionID, step.Run.Epoch, stored, func(batch *pgx.Batch) { spend(batch, step.Run.ID, stored, spent) })
	return stored[0], err
}

// spend queues what a step adds to its run's account. It fails where the run is settled.
func spend(batch *pgx.Batch, runID string, written []Entry, spent Spent) {
	thinking := 0
	if written[0].Kind == EntryAssistant {
		thinking = 1
	}
	batch.Queue(`
		UPDATE runs SET last_seq = greatest(last_seq, $2), steps = steps + $3,
			input_tokens = input_tokens + $4, output_tokens = output_tokens + $5,
			cache_read_tokens = cache_read_tokens + $6, cache_write_tokens = cache_write_tokens + $7,
			cost_micros = CASE WHEN $3 = 0 THEN cost_micros WHEN steps = 0 THEN $8::bigint ELSE cost_micros + $8::bigint END,
			model_ms = model_ms + $9, tool_ms = tool_ms + $10
		WHERE id = $1 AND state = 'running'`, runID, written[len(written)-1].Seq, thinking,
		spent.Usage.Input, spent.Usage.Output, spent.Usage.CacheRead, spent.Usage.CacheWrite, spent.CostMicros, spent.ModelMS, spent.ToolMS).
		Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() == 0 {
				return fault.New(fault.Conflict, "the run was settled in the meantime")
			}
			return nil
		})
}

// CloseCalls answers the tool calls that earlier steps of a run left open, before the next model call.
func (s *Store) CloseCalls(ctx context.Context, r Run) error {
	return s.tx(ctx, "close_calls", func(tx pgx.Tx) error { return closeCalls(ctx, tx, &r) })
}

// StepEntry finds what a step of a run has written; not_found when it has not.
func (s *Store) StepEntry(ctx context.Context, runID, slot string) (Entry, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+entryColumns+` FROM entries WHERE run_id = $1 AND slot = $2`, runID, slot)
	if err != nil {
		return Entry{}, translate(err)
	}
	entries, err := pgx.CollectRows(rows, scanEntry)
	if err != nil {
		return Entry{}, translate(err)
	}
	if len(entries) == 0 {
		return Entry{}, fault.New(fault.NotFound, "the run has not written %s", slot)
	}
	return entries[0], nil
}

// Memory is MEMORY.md of the office and of the workspace, as read for one run.
type Memory struct {
	Office    string `json:"office"`
	Workspace string `json:"workspace"`
}

// RunMemory reads what was recalled for a run; false when nothing was yet.
func (s *Store) RunMemory(ctx context.Context, runID string) (Memory, bool, error) {
	var m *Memory
	err := s.pool.QueryRow(ctx, `SELECT memory FROM runs WHERE id = $1`, runID).Scan(&m)
	if err != nil || m == nil {
		return Memory{}, false, translate(err)
	}
	return *m, true, nil
}

// SetRunMemory keeps what was recalled for a run, once: its steps must see the same.
func (s *Store) SetRunMemory(ctx context.Context, runID string, m Memory) error {
	// Lost with a crash of the database, it is read again.
	return translate(s.execUnforced(ctx, "recall", `UPDATE runs SET memory = coalesce(memory, $2) WHERE id = $1 AND state = 'running'`, runID, m))
}
