package store_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
)

// age moves everything that the scene has done so far into the past.
func (c *scene) age(by time.Duration) {
	c.t.Helper()
	rows, err := c.s.Pool().Query(c.ctx(), `
		SELECT table_name, column_name FROM information_schema.columns
		WHERE table_schema = current_schema() AND data_type = 'timestamp with time zone' AND table_name NOT LIKE 'goose%'`)
	c.must(err)
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Table, Column string }])
	c.must(err)
	for _, at := range columns {
		_, err := c.s.Pool().Exec(c.ctx(), fmt.Sprintf(`UPDATE %s SET %s = %s - make_interval(secs => %f)`, at.Table, at.Column, at.Column, by.Seconds()))
		c.must(err)
	}
}

// counts tells how many rows each table has.
func (c *scene) counts() map[string]int64 {
	c.t.Helper()
	rows, err := c.s.Pool().Query(c.ctx(), `SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename NOT LIKE 'goose%'`)
	c.must(err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	c.must(err)
	all := map[string]int64{}
	for _, table := range tables {
		var n int64
		c.must(c.s.Pool().QueryRow(c.ctx(), `SELECT count(*) FROM `+table).Scan(&n))
		all[table] = n
	}
	return all
}

// litter plays what leaves something behind in every table that is pruned, and returns a run that is still open.
func (c *scene) litter() store.Run {
	c.t.Helper()
	c.ask("C1", "ann", "hello")
	answered := c.claim("C1")
	c.must(c.s.SetRunMemory(c.ctx(), answered.ID, store.Memory{Office: "- a fact"}))
	c.think(answered, 1, words("an answer"))
	c.settle(answered, "an answer", run.Answered)
	_, err := c.s.BeginCapture(c.ctx(), answered.ID)
	c.must(err)
	_, _, err = c.s.LeaseMemory(c.ctx(), c.office.Key, answered.ID)
	c.must(err)
	_, _, err = c.s.EndCapture(c.ctx(), answered.ID, store.CaptureEnding{Outcome: store.CaptureBelow})
	c.must(err)
	_, _, err = c.s.CreateLink(c.ctx(), answered.SessionID, time.Hour)
	c.must(err)
	m := c.message("C1", "ann", "stop", store.AuthorHuman)
	c.receive(m, &store.InboxRow{OfficeKey: c.office.Key, SessionKey: "C1", Kind: store.InboxControl, Trigger: run.Command, Word: "stop", MessageID: m.MessageID})
	edited := c.chat("C1", "bob", "first version")
	_, err = c.s.IndexHistory(c.ctx())
	c.must(err)
	_, err = c.s.Revise(c.ctx(), store.Revision{OfficeKey: c.office.Key, MessageID: edited, Text: "second version"})
	c.must(err)
	_, err = c.s.IndexHistory(c.ctx())
	c.must(err)
	_, err = c.s.Pool().Exec(c.ctx(), `INSERT INTO run_waits (run_id, workflow_id) VALUES ($1, 'w')`, m.MessageID)
	c.must(err)
	_, err = c.s.Pool().Exec(c.ctx(), `INSERT INTO rate_buckets (name, tokens) VALUES ($1, 1)`, m.MessageID)
	c.must(err)
	c.ask("C1", "ann", "and this?")
	open := c.claim("C1")
	c.think(open, 1, call("c1", "bash", "{}"))
	_, err = c.s.Intend(c.ctx(), store.Delivery{Key: open.ID, OfficeKey: open.OfficeKey, SessionKey: open.SessionKey, RunID: open.ID, Kind: store.AnswerDelivery, Text: "…"}, time.Second, store.PostOnce)
	c.must(err)
	return open
}

func TestPruneTakesWhatHasServedAndNothingElse(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.litter()
	before := c.counts()
	pruned, err := c.s.Prune(c.ctx(), 30*24*time.Hour)
	c.must(err)
	if after := c.counts(); !maps.Equal(before, after) {
		t.Errorf("what is young was pruned: %v, then %v (%+v)", before, after, pruned)
	}
	c.age(31 * 24 * time.Hour)
	stale := c.claimAs("C1", "again", store.Wait)
	c.settle(stale.Run, "interrupted", run.Failed)
	c.age(31 * 24 * time.Hour)
	open := c.litter() // the same again, today
	// A new link forgets the old ones. This is what is left where nobody asks for another.
	_, err = c.s.Pool().Exec(c.ctx(), `INSERT INTO view_links SELECT sha256('old'), office_key, session_id, created_at, expires_at - interval '31 days' FROM view_links`)
	c.must(err)
	before = c.counts()
	would, err := c.s.Prunable(c.ctx(), 30*24*time.Hour)
	c.must(err)
	pruned, err = c.s.Prune(c.ctx(), 30*24*time.Hour)
	c.must(err)
	if !slices.Equal(would, pruned) {
		t.Errorf("a dry run counts %+v, and then %+v are pruned", would, pruned)
	}
	after := c.counts()
	for _, p := range pruned {
		if p.Rows == 0 {
			t.Errorf("nothing is pruned of %s (%s)", p.Table, p.What)
		}
		if p.Table != "runs" { // their rows stay
			before[p.Table] -= p.Rows
		}
	}
	if !maps.Equal(before, after) {
		t.Errorf("the tables hold %v, want %v", after, before)
	}
	c.think(open, 2, words("still here"))
	c.settle(open, "still here", run.Answered)
}
