package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
)

// node is a node of a plan that was carried out.
type node struct {
	Type  string  `json:"Node Type"`
	Table string  `json:"Relation Name"`
	Index string  `json:"Index Name"`
	Loops float64 `json:"Actual Loops"`
	Rows  float64 `json:"Actual Rows"`
	Hit   int     `json:"Shared Hit Blocks"`
	Read  int     `json:"Shared Read Blocks"`
	Plans []node  `json:"Plans"`
}

// searchSettings are those of a search's transaction; other statements have to do without.
const searchSettings = "SET LOCAL enable_seqscan = off"

// plan carries a statement out and tells how.
func plan(t testing.TB, s *store.Store, settings, sql string, args ...any) node {
	t.Helper()
	var raw []byte
	err := pgx.BeginFunc(t.Context(), s.Pool(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), settings); err != nil {
			return err
		}
		return tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql, args...).Scan(&raw)
	})
	if err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan node }
	if err := json.Unmarshal(raw, &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan
}

// each visits a plan's nodes that ran.
func (n node) each(visit func(node)) {
	if n.Loops == 0 {
		return
	}
	visit(n)
	for _, child := range n.Plans {
		child.each(visit)
	}
}

func (n node) pages() int { return n.Hit + n.Read }

func TestSearchesAreCarriedOutByIndexes(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	const n = 20_000
	fill(t, s, "big", n)
	fill(t, s, "other", n/4)
	if _, err := s.IndexHistory(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pool().Exec(t.Context(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
	const keys, recent = "entry_search_keys", "entry_search_recent"
	for _, c := range []struct{ name, query, index string }{
		{"a word in every entry", "message", recent},
		{"a word in a quarter", "sometimes", recent},
		{"a word in one of a thousand", "seldom", keys},
		{"a word in the oldest only", "ancient", keys},
		{"a word in three", "needle", keys},
		{"a word in none", "nonexistentword", keys},
		{"two letters in none", "zq", keys},
		{"Chinese in none", "飞行员驾驶", keys},
		{"a Chinese word in a third", "数据库迁移", recent},
	} {
		t.Run(c.name, func(t *testing.T) {
			sql, args, err := s.SearchSQL(t.Context(), "big", "", parse(t, c.query))
			if err != nil {
				t.Fatal(err)
			}
			p := plan(t, s, searchSettings, sql, args...)
			used := map[string]bool{}
			p.each(func(n node) {
				used[n.Index] = true
				if n.Type == "Seq Scan" {
					t.Errorf("%s is read from end to end", n.Table)
				}
			})
			if !used[recent] || used[keys] != (c.index == keys) {
				t.Errorf("indexes used: %v", used)
			}
			// The newest 1,000 rows are under a hundred pages, the 2,000 rows of the most frequent word that is looked up in the
			// index of keys at most as many; to go through all rows with their keys takes thousands.
			if p.pages() > 2500 {
				t.Errorf("%d pages were read", p.pages())
			}
		})
	}
}

// TestSweepsReadWhatIsLeftOverAlone looks at what each process asks every few seconds, beside much that waits or is over.
func TestSweepsReadWhatIsLeftOverAlone(t *testing.T) {
	t.Parallel()
	c := sceneIn(t, storetest.Open(t), "C1")
	c.ask("C1", "ann", "first")
	c.answer("C1", "one")
	for _, statement := range []string{
		`INSERT INTO inbox (office_key, session_key, kind, trigger, message_id, received_at)
			SELECT office_key, session_key, 'trigger', 'human', 'waiting' || n, now() - interval '1 hour' FROM sessions, generate_series(1, 20000) n`,
		`INSERT INTO inbox (office_key, session_key, kind, state, trigger, message_id, received_at)
			SELECT office_key, session_key, kind, state, 'human', 'left ' || state, now() - interval '1 hour'
			FROM sessions, (VALUES ('control', 'waiting'), ('trigger', 'undecided')) AS k (kind, state)`,
		`INSERT INTO runs (id, office_key, session_key, session_id, epoch, trigger, trigger_message_id, workflow_id, origin_run_id, temporal_run_id, state, outcome, first_seq, last_seq, received_at, settled_at, checked_at, marked)
			SELECT 'over' || n, office_key, session_key, session_id, epoch, trigger, 'over' || n, workflow_id, 'o', 't', 'settled', 'answered', 1, 2, now(), now() - interval '1 hour', now() - interval '1 hour', n = 1
			FROM runs, generate_series(1, 20000) n`,
		`INSERT INTO deliveries (key, office_key, session_key, cause_message_id, kind, state, text, deadline)
			SELECT 'over' || n, office_key, session_key, 'over' || n, 'notice', CASE n WHEN 1 THEN 'intended' ELSE 'final' END, '', now() - interval '1 hour'
			FROM sessions, generate_series(1, 20000) n`,
		`ANALYZE`,
	} {
		if _, err := c.s.Pool().Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []struct {
		name, sql string
		args      []any
	}{
		{"words", store.ControlsSQL, []any{1.0, 0, c.office.Platform, 100}},
		{"decisions", store.UndecidedsSQL, []any{1.0, 0, c.office.Platform, 100}},
		{"signs", store.SignedSQL, []any{c.office.Platform, 1.0, 1.0, 100}},
		{"notices", store.AbandonSQL, []any{1.0}},
	} {
		t.Run(q.name, func(t *testing.T) {
			p := plan(t, c.s, "SET LOCAL random_page_cost = 4", q.sql, q.args...)
			if p.Type != "ModifyTable" && p.Rows != 1 {
				t.Errorf("%v rows, want the one that is left over", p.Rows)
			}
			p.each(func(n node) {
				if n.Type == "Seq Scan" && n.Table != "offices" {
					t.Errorf("%s is read from end to end", n.Table)
				}
			})
			if p.pages() > 100 {
				t.Errorf("%d pages were read", p.pages())
			}
		})
	}
}

// newContext makes a session with so many old entries, a reset, and the same ten entries after it.
func newContext(t testing.TB, s *store.Store, name string, old int) (sessionID string) {
	t.Helper()
	c := sceneIn(t, s, name)
	c.ask(name, "ann", "first")
	c.answer(name, "one")
	id := c.session(name).ID
	const batch = 50_000
	for from := 1; from <= old; from += batch {
		if _, err := s.Pool().Exec(t.Context(), `
			WITH added AS (
				INSERT INTO entries (session_id, seq, kind, body, tokens)
				SELECT $1, 2 + i, 'chat', jsonb_build_object('blocks', jsonb_build_array(jsonb_build_object('kind', 'text', 'text', md5(i::text)))), 20
				FROM generate_series($2::int, $3::int) i)
			UPDATE sessions SET next_seq = 3 + $3::int WHERE id = $1`, id, from, min(from+batch-1, old)); err != nil {
			t.Fatal(err)
		}
	}
	c.reset(name)
	for i := range 5 {
		c.ask(name, "ann", fmt.Sprintf("question %d", i))
		c.answer(name, strings.Repeat("answer ", 20))
	}
	return id
}

func TestLoadingAContextCostsWithTheContext(t *testing.T) {
	t.Parallel()
	pages := func(old int) int {
		s := storetest.Open(t) // of its own: in one table, both would pay for the history of one
		id := newContext(t, s, "C1", old)
		if _, err := s.Pool().Exec(t.Context(), "ANALYZE entries, sessions"); err != nil {
			t.Fatal(err)
		}
		// What Postgres assumes of disks unless told otherwise: the setting under which it least likes to use an index.
		p := plan(t, s, "SET LOCAL random_page_cost = 4", store.ContextSQL, id)
		if p.Rows != 10 {
			t.Fatalf("a context of %v entries", p.Rows)
		}
		return p.pages()
	}
	few, many := pages(1000), pages(50_000)
	// A deeper index takes a page more for each of the few times that it is descended.
	if many > few*3/2+4 {
		t.Errorf("%d pages with 50,000 old entries, %d with 1,000", many, few)
	}
}

// BenchmarkContext loads the same context behind 100 and behind 1,000,000 old entries, each in a database of its own.
func BenchmarkContext(b *testing.B) {
	type place struct {
		s       *store.Store
		session string
	}
	olds := []int{100, bigOffice}
	places := map[int]place{}
	for _, old := range olds {
		s := storetest.Open(b)
		places[old] = place{s, newContext(b, s, "C1", old)}
		if _, err := s.Pool().Exec(b.Context(), "VACUUM ANALYZE entries, sessions"); err != nil {
			b.Fatal(err)
		}
	}
	for range 3 {
		for _, old := range olds {
			b.Run(fmt.Sprintf("%d old entries", old), func(b *testing.B) {
				p := places[old]
				for b.Loop() {
					c, err := p.s.Context(b.Context(), p.session)
					if err != nil || len(c.Entries) != 10 {
						b.Fatal(len(c.Entries), err)
					}
				}
			})
		}
	}
}

// BenchmarkAppend stores the result of a tool that printed a line, and of one that printed 50 KB, as runs do: with the
// search index left to the background, and, for comparison, with no search at all.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 50 << 10} {
		for _, without := range []string{"", "DROP TRIGGER entries_unsearched ON entries"} {
			b.Run(fmt.Sprintf("%d bytes %s", size, without), func(b *testing.B) {
				c := newScene(b)
				if _, err := c.s.Pool().Exec(b.Context(), without); err != nil {
					b.Fatal(err)
				}
				output := strings.Repeat("2026-01-31 09:00:00 request 123 took 45ms path=/api/v1/things status=200\n", size/70+1)[:size]
				c.ask("C1", "ann", "go")
				r := c.claim("C1")
				for step := 1; b.Loop(); step++ {
					c.result(r, step, 0, "c", output)
				}
			})
		}
	}
}
