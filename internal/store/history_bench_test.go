package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/search"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
)

// fillOffice makes n entries of about 250 bytes, four of five in one session and the rest in a hundred threads. Of every
// thousand, all hold "message", 250 "sometimes", 3 "seldom"; "ancient" is in each of the oldest tenth, "needle" in
// three at all, one of them the oldest. Every third is Chinese.
const fillOffice = `
WITH office AS (
    INSERT INTO offices (key, platform, conversation_id, audience) VALUES ($1, 'slack', $1, 'shared')
), made AS (
    INSERT INTO sessions (id, office_key, session_key, window_session, window_seq, next_seq)
    SELECT $1 || '/' || n, $1, 'C:' || n, $1 || '/' || n, $2 + 1, $2 + 1 FROM generate_series(0, 100) n
)
SELECT 1`

const fillEntries = `
INSERT INTO entries (session_id, seq, kind, body, tokens, at)
SELECT $1 || '/' || CASE WHEN i % 5 = 0 THEN 1 + i / 5 % 100 ELSE 0 END, i, 'chat',
    jsonb_build_object('blocks', jsonb_build_array(jsonb_build_object('kind', 'text', 'text',
        'message ' || i || ' '
        || CASE WHEN i % 4 = 0 THEN 'sometimes ' ELSE '' END
        || CASE WHEN i % 333 = 0 THEN 'seldom ' ELSE '' END
        || CASE WHEN i <= $3 / 10 THEN 'ancient ' ELSE '' END
        || CASE WHEN i IN (1, 1 + $3 / 2, $3) THEN 'needle ' ELSE '' END
        || CASE WHEN i % 3 = 0 THEN '我们今天讨论部署数据库迁移计划' || chr(19968 + i % 3000) || chr(19968 + i % 2777) || '的问题' ELSE '' END
        || (SELECT string_agg(word, ' ') FROM (SELECT (ARRAY['build','server','deploy','error','request','timeout','retry','config',
            'database','index','session','thread','worker','queue','signal','history','platform','token','schedule','memory',
            'docker','network','socket','module','package','version','release','branch','commit','review'])
            [1 + (i::bigint * 7919 + k * 104729 + i / 30 * k) % 30] AS word FROM generate_series(1, 12) k) w)
        || ' ' || md5(i::text)))), 60, now() - make_interval(secs => $3 - i)
FROM generate_series($2::int, $4::int) i`

func fill(t testing.TB, s *store.Store, office string, n int) {
	t.Helper()
	if _, err := s.Pool().Exec(t.Context(), fillOffice, office, n); err != nil {
		t.Fatal(err)
	}
	const batch = 20_000
	for from := 1; from <= n; from += batch {
		if _, err := s.Pool().Exec(t.Context(), fillEntries, office, from, n, min(from+batch-1, n)); err != nil {
			t.Fatal(err)
		}
	}
}

func parse(t testing.TB, query string) search.Query {
	t.Helper()
	q, err := search.Parse(query)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

const bigOffice = 1_000_000

// searches are words of all kinds: how often they occur, how long they are, in which script.
var searches = []struct{ name, query string }{
	{"in every entry", "message"},
	{"in a quarter", "sometimes"},
	{"in 3 of 1000", "seldom"},
	{"in the oldest tenth only", "ancient"},
	{"three at all", "needle"},
	{"in none", "nonexistentword"},
	{"a part of a word", "eedl"},
	{"two letters in none", "zq"},
	{"one letter in all", "m"},
	{"one character in none", "§"},
	{"common words that never meet", "ancient message 999999"},
	{"a number", "message 748291"},
	{"a number of one digit", "message 777777"},
	{"Chinese in a third", "数据库迁移"},
	{"Chinese in none", "飞行员驾驶"},
	{"Chinese that shares two pairs with a third", "数据库管理员"},
}

// BenchmarkHistorySearch searches an office of a million entries.
func BenchmarkHistorySearch(b *testing.B) {
	s := storetest.Open(b)
	started := time.Now()
	fill(b, s, "big", bigOffice)
	filled := time.Now()
	n, err := s.IndexHistory(b.Context())
	if err != nil || n != bigOffice {
		b.Fatal(n, err)
	}
	b.Logf("filled in %s, indexed %.0f entries/s", filled.Sub(started).Round(time.Second), float64(n)/time.Since(filled).Seconds())
	if _, err := s.Pool().Exec(b.Context(), "VACUUM ANALYZE"); err != nil {
		b.Fatal(err)
	}
	for _, c := range searches {
		for _, session := range []string{"", "big/7"} {
			b.Run(c.name+map[bool]string{true: "", false: ", one session"}[session == ""], func(b *testing.B) {
				q := parse(b, c.query)
				for b.Loop() {
					found, more, err := s.SearchEntries(b.Context(), "big", session, q, store.Page{Limit: 20})
					if err != nil {
						b.Fatal(err)
					}
					if b.N == 1 {
						b.ReportMetric(float64(len(found)), "found")
					}
					_ = more
				}
			})
		}
	}
	var sizes []string
	for _, table := range []string{"entries", "entry_search", "entry_search_keys", "entry_search_recent"} {
		var size string
		if err := s.Pool().QueryRow(b.Context(), fmt.Sprintf("SELECT pg_size_pretty(pg_total_relation_size('%s'))", table)).Scan(&size); err != nil {
			b.Fatal(err)
		}
		sizes = append(sizes, table+" "+size)
	}
	b.Log(strings.Join(sizes, ", "))
}
