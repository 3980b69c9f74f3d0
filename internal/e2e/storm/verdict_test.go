package storm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/adapters/adaptertest"
	"github.com/geminixiang/mikan/adapters/telegram/telegramtest"
	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/office"
)

// records are what the database says about a message.
type records struct {
	Office, MessageID string
	RunID             string // "": it has none
	Outcome           string // "": it is open
	Error             string
	SettledAt         time.Time
}

// recorded reads the records of all messages, by token.
func (s *storm) recorded(ctx context.Context) (map[string]records, error) {
	found, err := s.DB().Query(ctx, `
		SELECT m.text, m.office_key, m.message_id, coalesce(r.id, ''), coalesce(r.outcome, ''),
			coalesce(r.error_code || ': ' || r.error_text, ''), coalesce(r.settled_at, 'epoch')
		FROM chat_log m LEFT JOIN runs r ON r.office_key = m.office_key AND r.trigger_message_id = m.message_id
		WHERE m.author_kind = 'human' AND m.newest`)
	if err != nil {
		return nil, err
	}
	all := map[string]records{}
	var text string
	var one records
	_, err = pgx.ForEachRow(found, []any{&text, &one.Office, &one.MessageID, &one.RunID, &one.Outcome, &one.Error, &one.SettledAt}, func() error {
		all[tokens.FindString(text)] = one
		return nil
	})
	return all, err
}

// unanswered lists what has been said and has no settled run yet.
func (s *storm) unanswered() []string {
	all, err := s.recorded(s.T.Context())
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	for _, m := range s.register.all() {
		switch r, logged := all[m.token]; {
		case !logged:
			left = append(left, fmt.Sprintf("%s on %s (%s) is not known", m.token, m.room.town.Name(), m.id))
		case r.Outcome == "":
			left = append(left, fmt.Sprintf("%s on %s (%s) has no settled run", m.token, m.room.town.Name(), m.id))
		}
	}
	return left
}

// posted is a delivery.
type posted struct {
	Key, Office, RunID, Kind, State, Text, MessageID string
	Cause                                            bool // it is about a message, not the answer
	Part                                             int
}

// shownAs is the id by which people see it.
func (d posted) shownAs() string { return d.MessageID[strings.LastIndex(d.MessageID, "-")+1:] }

// deliveries lists what was brought to the platforms, by run; what belongs to none is under "".
func (s *storm) deliveries() map[string][]posted {
	found, err := s.DB().Query(s.T.Context(), `
		SELECT key, office_key, coalesce(run_id, ''), kind, state, text, coalesce(message_id, ''), cause_message_id IS NOT NULL, part FROM deliveries ORDER BY part`)
	if err != nil {
		s.T.Fatal(err)
	}
	all := map[string][]posted{}
	rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[posted])
	if err != nil {
		s.T.Fatal(err)
	}
	for _, d := range rows {
		all[d.RunID] = append(all[d.RunID], d)
	}
	return all
}

// tally is what is told of a platform.
type tally struct {
	said, answered, silent, resent, waiting, early int
	failed                                         []string
	longest                                        time.Duration
}

// judge checks all that must be true now.
func (s *storm) judge() {
	s.WellFormed()
	all, err := s.recorded(s.T.Context())
	must(s.T, err)
	deliveries := s.deliveries()
	tallies := map[office.Platform]*tally{}
	failed := 0
	for _, w := range s.towns {
		n := &tally{}
		tallies[w.Name()] = n
		for _, r := range w.rooms {
			s.judgeRoom(r, all, deliveries, n)
		}
		failed += len(n.failed)
		for _, v := range violations(w) {
			if s.faults["Postgres killed"] > 0 && (strings.HasPrefix(v, "rate ") || strings.Contains(v, "over the limit")) {
				n.early++ // a crash of the database empties the buckets: the platform refuses then, and is obeyed
				continue
			}
			s.T.Errorf("a rule of %s was broken: %s", w.Name(), v)
		}
	}
	said := s.register.all()
	if failed > 1+len(said)/50 {
		s.T.Errorf("%d of %d runs failed: too many, even when they say so", failed, len(said))
	}
	s.judgeTools()
	s.judgeModel()
	s.judgeSecrets()
	for _, name := range slices.Sorted(maps.Keys(tallies)) {
		n := tallies[name]
		s.T.Logf("%s: %d messages, %d answered, %d unsaid, %d failed %q; longest wait %.1f s; shown again without need: %d; notices: %d; calls beyond a rate after a crash of the database: %d",
			name, n.said, n.answered, n.silent, len(n.failed), n.failed, n.longest.Seconds(), n.resent, n.waiting, n.early)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		s.T.Logf("%3d × %s", s.faults[name], name)
	}
}

// violations lists the rules of a platform that were broken. Telegram's server would fail the test by itself for them.
func violations(w *town) []string {
	all := w.Violations()
	if server, is := w.Platform.(interface {
		ForgiveViolations() []telegramtest.Violation
	}); is {
		for _, v := range server.ForgiveViolations() {
			all = append(all, v.String())
		}
	}
	return all
}

// judgeRoom compares what a room shows with what is recorded: each message has what is due to it, and nothing else is
// there.
func (s *storm) judgeRoom(r *room, all map[string]records, deliveries map[string][]posted, n *tally) {
	shown := map[string]adaptertest.Shown{}
	for _, one := range r.Seen(s.T) {
		shown[one.ID] = one
	}
	claimed := map[string]bool{}
	foreign := map[string]bool{}
	key := "" // of the room's office
	for _, m := range s.register.all() {
		if m.room != r {
			foreign[m.token] = true
			continue
		}
		n.said++
		record, logged := all[m.token]
		if !logged || record.RunID == "" || record.Outcome == "" {
			s.wrong(m, "it was never answered")
			continue
		}
		key = record.Office
		n.longest = max(n.longest, record.SettledAt.Sub(m.at))
		var texts []string
		for _, d := range deliveries[record.RunID] {
			if d.State != "final" || d.Cause {
				continue
			}
			id := d.shownAs()
			one, visible := shown[id]
			switch {
			case !visible:
				s.wrong(m, "part %d, %s, is not there", d.Part, d.MessageID)
			case claimed[id]:
				s.wrong(m, "part %d, %s, is another delivery, too", d.Part, d.MessageID)
			}
			claimed[id] = true
			texts = append(texts, one.Text)
		}
		s.judgeAnswer(m, record, texts, n)
	}
	for _, d := range slices.Concat(slices.Collect(maps.Values(deliveries))...) {
		if id := d.shownAs(); d.Cause && d.State == "final" && d.Office == key {
			if one, visible := shown[id]; visible && !claimed[id] && strings.Contains(one.Text, d.Text) {
				claimed[id] = true
				n.waiting++
			}
		}
	}
	for id, one := range shown {
		for _, token := range tokens.FindAllString(one.Text, -1) {
			if foreign[token] {
				s.T.Errorf("%s: %s shows %q of another room", r.town.Name(), id, token)
			}
		}
		if claimed[id] {
			continue
		}
		if r.town.Name() == office.Telegram && again(one, shown, claimed) {
			n.resent++
			continue
		}
		s.T.Errorf("%s: %s is left over: %q", r.town.Name(), id, e2etest.Tail(one.Text, 300))
	}
}

// again tells whether a message can be one that was sent once more since nobody could tell that it had been sent: a
// placeholder, a notice, or a later part of an answer. Telegram has no way to find out, and none to take it back.
func again(one adaptertest.Shown, shown map[string]adaptertest.Shown, claimed map[string]bool) bool {
	if one.Text == "Thinking…" {
		return true
	}
	for id, other := range shown {
		if id != one.ID && claimed[id] && other.Text == one.Text {
			return true
		}
	}
	return false
}

// judgeAnswer compares what is shown in answer to a message with what is due to it.
func (s *storm) judgeAnswer(m *message, record records, texts []string, n *tally) {
	switch {
	case record.Outcome == "silent" && m.kind == unsaid && len(texts) == 0:
		n.silent++
	case record.Outcome == "failed":
		n.failed = append(n.failed, fmt.Sprintf("%s %s: %s", m.kind, m.token, record.Error))
		if len(texts) == 0 || strings.TrimSpace(texts[len(texts)-1]) == "" || tokens.MatchString(texts[len(texts)-1]) {
			s.wrong(m, "its run failed without a word: %q", texts)
		}
	case record.Outcome == "answered" && m.kind != unsaid && asSaid(m, texts):
		n.answered++
	default:
		s.wrong(m, "its run is %s, and it shows %q", record.Outcome, e2etest.Tail(strings.Join(texts, " | "), 400))
	}
}

// wrong is a fault of one message's.
func (s *storm) wrong(m *message, format string, args ...any) {
	s.T.Errorf("%s %s on %s (%s): %s\n%s", m.kind, m.token, m.room.town.Name(), m.id, fmt.Sprintf(format, args...), s.about(m.token))
}

// judgeTools checks that no command ran twice, and that the model was told the truth about each.
func (s *storm) judgeTools() {
	ran := map[string]int{}
	for _, mark := range s.Ran("marks") {
		ran[mark]++
	}
	for mark, n := range ran {
		if n > 1 {
			s.T.Errorf("the tool of %s ran %d times\n%s", mark, n, s.about(mark))
		}
	}
	results, err := e2etest.Rows(s.T.Context(), s.DB(), `
		SELECT DISTINCT e.run_id || ' ' || (b ->> 'callId') || ' → ' || (SELECT r.body -> 'blocks' -> 0 ->> 'text' FROM entries r
			WHERE r.run_id = e.run_id AND r.kind = 'tool_result' AND r.body -> 'blocks' -> 0 ->> 'callId' = b ->> 'callId' LIMIT 1)
		FROM entries e CROSS JOIN LATERAL jsonb_array_elements(e.body -> 'blocks') b
		WHERE e.kind = 'assistant' AND b ->> 'kind' = 'tool_call'`)
	must(s.T, err)
	counts := map[string]int{}
	for _, result := range results {
		name, text, _ := strings.Cut(result, " → ")
		_, text, done := strings.Cut(text, "done ")
		switch token, _, _ := strings.Cut(strings.TrimSpace(text), "\n"); {
		case done && ran[token] == 1:
			counts["done"]++
		case done:
			s.T.Errorf("the model was told that %s is done, but it ran %d times\n%s", token, ran[token], s.about(token))
		case strings.Contains(result, "interrupted"):
			counts["interrupted"]++
		case strings.Contains(result, "No space left"), strings.Contains(result, "no space left"):
			counts["no room on the disk"]++
		default:
			s.T.Errorf("a call came to nothing that has a cause: %s: %q", name, result)
		}
	}
	s.T.Logf("%d calls: %v; %d lines written", len(results), counts, len(ran))
}

// judgeModel checks that the model was never asked anything that a provider would refuse, or that nobody said.
func (s *storm) judgeModel() {
	requests := s.Model.Requests()
	for _, r := range requests {
		if r.Refused != "" {
			s.T.Errorf("the model's provider refuses a request: %s", r.Refused)
		}
	}
	for _, stray := range s.model.strays {
		s.T.Errorf("the model is asked what nobody said: %q", e2etest.Tail(stray, 300))
	}
	s.T.Logf("%d model calls", len(requests))
}

// judgeSecrets looks for them where they must not be.
func (s *storm) judgeSecrets() {
	for name, secret := range s.Env {
		if !strings.HasSuffix(name, "_TOKEN") && !strings.HasSuffix(name, "_KEY") && !strings.HasSuffix(name, "_SECRET") {
			continue
		}
		for where, at := range s.slots {
			for _, p := range at.all {
				if strings.Contains(p.Output(), secret) {
					s.T.Errorf("%s logs the %s", where, name)
				}
			}
		}
		for _, w := range s.towns {
			for _, r := range w.rooms {
				for _, one := range r.Seen(s.T) {
					if strings.Contains(one.Text, secret) {
						s.T.Errorf("%s shows the %s", w.Name(), name)
					}
				}
			}
		}
	}
}

// about tells everything that there is about a token.
func (s *storm) about(token string) string {
	token = tokens.FindString(token)
	var out strings.Builder
	m, _ := s.register.find(token)
	rows, err := e2etest.Rows(context.WithoutCancel(s.T.Context()), s.DB(), `
		WITH m AS (SELECT office_key, message_id FROM chat_log WHERE text LIKE '%' || $1 || '%' AND author_kind = 'human'),
			r AS (SELECT runs.* FROM runs JOIN m ON runs.office_key = m.office_key AND trigger_message_id = m.message_id)
		SELECT 'said      ' || id || ' ' || to_json(c) FROM chat_log c WHERE (office_key, message_id) IN (SELECT * FROM m)
		UNION ALL SELECT 'run       ' || to_json(r) FROM r
		UNION ALL SELECT 'delivery  ' || left(to_json(d)::text, 1200) FROM deliveries d WHERE run_id IN (SELECT id FROM r) OR (office_key, cause_message_id) IN (SELECT * FROM m)
		UNION ALL SELECT 'entry     ' || left(to_json(e)::text, 600) FROM entries e WHERE run_id IN (SELECT id FROM r)`, token)
	for _, row := range rows {
		out.WriteString("    " + row + "\n")
	}
	if err != nil {
		fmt.Fprintf(&out, "    %v\n", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m != nil {
		for _, line := range s.history {
			if strings.Contains(line, token) {
				out.WriteString("    " + line + "\n")
			}
		}
	}
	return out.String()
}

// explain prints what happened when a test has failed.
func (s *storm) explain() {
	if !s.T.Failed() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.T.Logf("what happened:\n%s", strings.Join(s.history, "\n"))
}
