package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/session"
)

// Execution names a Temporal execution that works on a session.
type Execution struct {
	WorkflowID string
	OriginRun  string // Temporal's original run id: equal after a reset in the Temporal UI
	RunID      string // the execution's own run id
}

// ClaimKind tells what a claim found.
type ClaimKind string

// What a claim finds.
const (
	ClaimedRun     ClaimKind = "claimed"  // Run is to be executed
	NothingWaits   ClaimKind = "nothing"  // no row waits
	FinishedRun    ClaimKind = "finished" // this execution's run is settled already (a reset in the Temporal UI)
	OrphanedRun    ClaimKind = "orphaned" // Run belongs to an execution that is gone: settle it first
	BlockedRun     ClaimKind = "blocked"  // the thread's first run waits for the run WaitFor
	DroppedTrigger ClaimKind = "dropped"  // the trigger was deleted before its turn; its row is gone
)

// Claim is what Claim found.
type Claim struct {
	Kind    ClaimKind
	Run     Run
	Files   bool // files that it brings in are to be fetched
	WaitFor string
}

// Claim takes the oldest waiting trigger of a session and makes it a run: it opens or forks the session, syncs the
// chat, appends the trigger and removes the inbox row, in one transaction. Repeated by the same execution it returns
// the same run.
func (s *Store) Claim(ctx context.Context, at Address, by Execution, patience Patience, with Terms) (claim Claim, err error) {
	err = s.tx(ctx, "claim", func(tx pgx.Tx) error {
		var runs []Run
		var waiting []InboxRow
		batch := &pgx.Batch{} // each statement sees what was committed before it began: the lock holds for the others
		batch.Queue(lockSQL, at.OfficeKey, at.SessionKey)
		batch.Queue(`
			SELECT `+runColumns+` FROM runs
			WHERE office_key = $2 AND session_key = $3 AND (origin_run_id = $1 OR state = 'running')
			ORDER BY (origin_run_id = $1) DESC, started_at DESC`, by.OriginRun, at.OfficeKey, at.SessionKey).Query(func(rows pgx.Rows) (err error) {
			runs, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Run, error) { return scanRun(row) })
			return err
		})
		batch.Queue(`
			SELECT `+inboxColumns+` FROM inbox
			WHERE office_key = $1 AND session_key = $2 AND kind = 'trigger' AND state = 'waiting'
			ORDER BY coalesce(said_at, received_at), id LIMIT 1`, at.OfficeKey, at.SessionKey).Query(func(rows pgx.Rows) (err error) {
			waiting, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (InboxRow, error) { return scanInbox(row) })
			return err
		})
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		switch {
		case len(runs) > 0:
			claim, err = claimKnown(ctx, tx, runs[0], by)
		case len(waiting) == 0:
			claim = Claim{Kind: NothingWaits}
		default:
			claim, err = claimRow(ctx, tx, waiting[0], by, patience, with)
		}
		return err
	})
	return claim, err
}

// Terms are what the office's settings say about a run.
type Terms struct {
	Model string         // provider/model[:thinking]
	Zone  *time.Location // of the times that the model reads
}

// claimKnown deals with what the session has open already, or what this execution has claimed before.
func claimKnown(ctx context.Context, tx pgx.Tx, newest Run, by Execution) (Claim, error) {
	switch {
	case newest.OriginRunID == by.OriginRun && newest.State == Settled:
		return Claim{Kind: FinishedRun, Run: newest}, nil
	case newest.OriginRunID == by.OriginRun:
		_, err := tx.Exec(ctx, `UPDATE runs SET temporal_run_id = $2 WHERE id = $1 AND temporal_run_id <> $2`, newest.ID, by.RunID)
		return Claim{Kind: ClaimedRun, Run: newest}, err
	default:
		// One workflow id has one open execution and that is the caller: whoever worked on this run is gone.
		return Claim{Kind: OrphanedRun, Run: newest}, nil
	}
}

func claimRow(ctx context.Context, tx pgx.Tx, row InboxRow, by Execution, patience Patience, with Terms) (Claim, error) {
	trigger, err := scanChat(tx.QueryRow(ctx, `
		SELECT `+chatColumns+` FROM chat_log WHERE office_key = $1 AND message_id = $2 AND newest`, row.OfficeKey, row.MessageID))
	if ok, err := found(err); !ok {
		if err != nil {
			return Claim{}, err
		}
		return Claim{}, fault.New(fault.Internal, "inbox row %d names a message that the chat log does not have", row.ID)
	}
	if trigger.Deleted {
		_, err := tx.Exec(ctx, deleteInboxSQL, row.ID)
		return Claim{Kind: DroppedTrigger}, err
	}
	opened, err := openSession(ctx, tx, row.OfficeKey, row.SessionKey, patience)
	if err != nil {
		return Claim{}, err
	}
	if opened.WaitFor != "" {
		_, err := tx.Exec(ctx, `
			INSERT INTO run_waits (run_id, workflow_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`, opened.WaitFor, by.WorkflowID)
		return Claim{Kind: BlockedRun, WaitFor: opened.WaitFor}, err
	}
	runID := run.ID(row.OfficeKey, row.SessionKey, row.MessageID, row.Attempt)
	entries, err := openingEntries(ctx, tx, opened, trigger, row, with.Zone)
	if err != nil {
		return Claim{}, err
	}
	for i := range entries {
		if entries[i].Slot == promptSlot {
			entries[i].RunID = runID
		}
	}
	claimed := Run{
		ID: runID, OfficeKey: row.OfficeKey, SessionKey: row.SessionKey, SessionID: opened.Session.ID, Epoch: opened.Session.Epoch,
		Trigger: row.Trigger, Word: row.Word, TriggerMessageID: row.MessageID, Attempt: row.Attempt, Reply: row.Reply,
		WorkflowID: by.WorkflowID, OriginRunID: by.OriginRun, TemporalRunID: by.RunID, State: Running, Model: with.Model,
		ReceivedAt: row.ReceivedAt, Marked: row.Marked,
	}
	err = appendEntries(ctx, tx, opened.Session.ID, opened.Session.Epoch, entries, func(batch *pgx.Batch) {
		claimed.FirstSeq = entries[len(entries)-1].Seq
		claimed.LastSeq = claimed.FirstSeq
		insertRun(batch, claimed)
		batch.Queue(deleteInboxSQL, row.ID)
	})
	if err != nil {
		return Claim{}, err
	}
	files := false
	if row.Trigger != run.Command && (len(trigger.Attachments) > 0 || len(entries) > 1) {
		if files, err = filesPending(ctx, tx, row.OfficeKey, entries); err != nil {
			return Claim{}, err
		}
	}
	return Claim{Kind: ClaimedRun, Run: claimed, Files: files}, nil
}

// promptSlot is where a run's trigger is kept.
const promptSlot = "prompt"

// openingEntries are what a run begins with: the chat lines that the session lacks, and the trigger. A command is noted
// for people; it is not part of what the model reads, and so brings nothing else in.
func openingEntries(ctx context.Context, tx pgx.Tx, opened opening, trigger ChatMessage, row InboxRow, zone *time.Location) ([]Entry, error) {
	if row.Trigger == run.Command {
		return []Entry{{Kind: EntryNote, Slot: promptSlot, MessageID: row.MessageID, Body: Body{Note: trigger.Text}}}, nil
	}
	entries, err := syncChat(ctx, tx, opened, trigger, zone)
	return append(entries, Entry{
		Kind: EntryPrompt, Slot: promptSlot, MessageID: row.MessageID,
		Body: Body{Blocks: []llm.Block{{Kind: llm.BlockText, Text: PromptLine(trigger, suffixOf(row.SessionKey), zone)}}},
	}), err
}

const deleteInboxSQL = `DELETE FROM inbox WHERE id = $1`

func suffixOf(sessionKey string) string {
	key, err := session.ParseKey(sessionKey)
	if err != nil {
		return ""
	}
	suffix, _ := key.Suffix()
	return suffix
}
