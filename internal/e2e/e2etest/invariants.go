package e2etest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.temporal.io/api/workflowservice/v1"
)

// Settled waits until nothing is left to do anywhere: no open run, nothing in the inbox, no notice on its way, nothing
// open in Temporal.
func (w *World) Settled() {
	w.T.Helper()
	db, temporal := w.DB(), w.Temporal()
	Eventually(w.T, "everything settles", func(ctx context.Context) error {
		left, err := Rows(ctx, db, `
			SELECT 'run ' || id || ' of ' || session_key || ' is open' FROM runs WHERE state = 'running'
			UNION ALL SELECT kind || ' ' || word || ' ' || message_id || ' waits' FROM inbox
			UNION ALL SELECT text || ' is on its way' FROM deliveries WHERE state = 'intended' AND run_id IS NULL`)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%v", left)
		}
		if err != nil {
			return err
		}
		open, err := temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: w.Env["TEMPORAL_NAMESPACE"], Query: "ExecutionStatus = 'Running' AND TaskQueue = '" + w.Env["MIKAN_TASK_QUEUE"] + "'",
		})
		if err == nil && open.GetCount() > 0 {
			err = fmt.Errorf("%d workflows are open", open.GetCount())
		}
		return err
	})
}

// faults are statements that find what must never be, whatever happened: each returns a sentence per fault.
var faults = map[string]string{
	// Among several people not every message is for mikan.
	"one run per message and attempt": `
		SELECT m.message_id || ' has ' || count(r.id) || ' runs' FROM chat_log m JOIN offices o ON o.key = m.office_key LEFT JOIN runs r
			ON r.office_key = m.office_key AND r.trigger_message_id = m.message_id
		WHERE m.kind = 'message' AND m.author_kind = 'human' AND m.newest GROUP BY m.office_key, m.message_id, o.audience
		HAVING count(r.id) <> coalesce(max(r.attempt), CASE o.audience WHEN 'shared' THEN 0 ELSE 1 END)`,
	// A long answer has further parts; a file that is posted is none.
	"one final answer per run": `
		SELECT r.id || ' (' || r.outcome || ') has ' || count(d.key) || ' final messages' FROM runs r LEFT JOIN deliveries d
			ON d.run_id = r.id AND d.cause_message_id IS NULL AND d.state = 'final' AND d.part = 0 AND d.text NOT LIKE '(file: %)'
		WHERE r.outcome <> 'silent' AND NOT (r.outcome = 'stopped' AND EXISTS (
			SELECT 1 FROM deliveries n WHERE n.run_id = r.id AND n.cause_message_id IS NOT NULL))
		GROUP BY r.id HAVING count(d.key) <> 1`,
	"no delivery left half-way": `
		SELECT key || ' (' || left(text, 40) || ') is ' || state FROM deliveries
		WHERE state IN ('intended', 'posted')`,
	"an answer is in the chat log once": `
		SELECT r.id || ' is logged ' || count(m.id) || ' times' FROM runs r LEFT JOIN chat_log m
			ON m.run_id = r.id AND m.kind = 'answer' AND m.cause_message_id = r.trigger_message_id
		WHERE r.outcome = 'answered' AND r.trigger <> 'command' GROUP BY r.id
		HAVING count(m.id) <> (SELECT count(*) FROM deliveries d WHERE d.run_id = r.id AND d.kind = 'answer' AND d.state = 'final')`,
	"each message once in its session": `
		SELECT session_id || ' holds ' || message_id || ' ' || count(*) || ' times' FROM entries e
		WHERE message_id IS NOT NULL GROUP BY session_id, message_id
		HAVING count(*) <> greatest(1, (SELECT count(*) FROM runs r WHERE r.session_id = e.session_id AND r.trigger_message_id = e.message_id))`,
	"each run's message in its session": `
		SELECT r.id || ' has no prompt' FROM runs r
		WHERE NOT EXISTS (SELECT 1 FROM entries e WHERE e.run_id = r.id AND e.slot = 'prompt' AND e.session_id = r.session_id)`,
	"entries without gaps": `
		SELECT session_id || ' has ' || count(*) || ' entries up to ' || max(seq) FROM entries
		GROUP BY session_id HAVING count(*) <> max(seq) OR min(seq) <> 1`,
	"each call has one result": `
		SELECT e.run_id || ' leaves ' || (b ->> 'callId') || ' with ' || count(r.id) || ' results'
		FROM entries e CROSS JOIN LATERAL jsonb_array_elements(e.body -> 'blocks') b
		LEFT JOIN entries r ON r.run_id = e.run_id AND r.kind = 'tool_result' AND r.body -> 'blocks' @> jsonb_build_array(jsonb_build_object('callId', b ->> 'callId'))
		WHERE e.kind = 'assistant' AND b ->> 'kind' = 'tool_call' GROUP BY e.run_id, b HAVING count(r.id) <> 1`,
}

// WellFormed checks everything that must hold once all has settled.
func (w *World) WellFormed() {
	w.T.Helper()
	db := w.DB()
	for _, what := range slices.Sorted(maps.Keys(faults)) {
		found, err := Rows(w.T.Context(), db, faults[what])
		if err != nil {
			w.T.Errorf("%s: %v", what, err)
		}
		for _, fault := range found {
			w.T.Errorf("%s: %s", what, fault)
		}
	}
}

// RanOnce checks that no marked tool call ran twice, and that one that ran without an answer was reported interrupted.
func (w *World) RanOnce(file string) {
	w.T.Helper()
	count := map[string]int{}
	for _, line := range w.Ran(file) {
		count[line]++
	}
	for line, n := range count {
		if n > 1 {
			w.T.Errorf("the tool of %s ran %d times", line, n)
		}
	}
	results, err := Rows(w.T.Context(), w.DB(), `
		SELECT b ->> 'arguments' || ' → ' || (SELECT r.body -> 'blocks' -> 0 ->> 'text' FROM entries r
			WHERE r.run_id = e.run_id AND r.kind = 'tool_result' AND r.body -> 'blocks' -> 0 ->> 'callId' = b ->> 'callId')
		FROM entries e CROSS JOIN LATERAL jsonb_array_elements(e.body -> 'blocks') b
		WHERE e.kind = 'assistant' AND b ->> 'kind' = 'tool_call' AND b ->> 'name' IN ('bash', 'write')`)
	if err != nil {
		w.T.Fatal(err)
	}
	interrupted := 0
	for _, result := range results {
		_, text, _ := strings.Cut(result, " → ")
		switch {
		case strings.HasPrefix(text, "done "):
			if token := strings.Fields(text)[1]; count[token] != 1 {
				w.T.Errorf("the model was told that %s is done, but it ran %d times", token, count[token])
			}
		case strings.HasPrefix(text, "note "): // what the write tool says
		case strings.Contains(text, "interrupted"):
			interrupted++
		default:
			w.T.Errorf("a call came to %q", result)
		}
	}
	w.T.Logf("%d calls, %d lines written, %d calls reported interrupted", len(results), len(count), interrupted)
}

// Mark is a message whose tool leaves one line in a file, and takes a moment.
func Mark(token string, seconds float64) string {
	return fmt.Sprintf("run: echo %s >> marks; sleep %.1f; echo done %s", token, seconds, token)
}
