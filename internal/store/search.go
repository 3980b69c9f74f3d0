package store

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/search"
)

// HistoryTool is the name of the tool that looks into the past. Its own calls and results never match a search: they
// would answer every question with the question.
const HistoryTool = "history"

// Page is which part of a list is wanted, counted from its newest end.
type Page struct {
	Limit int // at least 1
	Skip  int // how many of the newest are left out
}

// Remembered is an entry with what is needed to show it by itself.
type Remembered struct {
	Entry
	Tools map[string]string `json:"tools,omitempty"` // for tool results: names of the tools by call id
}

// SearchEntries finds the entries of an office, or of one of its sessions, that match: a page of the newest, oldest
// first, and whether there are older ones. An entry belongs to the session that owns it, so what forks inherited is
// found once.
func (s *Store) SearchEntries(ctx context.Context, officeKey, sessionID string, q search.Query, page Page) (found []Remembered, more bool, err error) {
	seek := seeker[Remembered]{
		corpus: entryCorpus, office: officeKey, session: sessionID, query: q,
		load: rememberedByID, sift: siftEntries,
		text: func(r Remembered) string {
			if sessionID != "" && r.SessionID != sessionID {
				return ""
			}
			return searchText(r)
		},
	}
	return seek.page(ctx, s, page)
}

// SearchChat finds the messages of an office that match, as they read now: a page of the newest, oldest first, and
// whether there are older ones.
func (s *Store) SearchChat(ctx context.Context, officeKey string, q search.Query, page Page) (found []ChatMessage, more bool, err error) {
	seek := seeker[ChatMessage]{corpus: chatCorpus, office: officeKey, query: q, load: chatByID, text: chatText}
	return seek.page(ctx, s, page)
}

// corpus is what one kind of search looks through.
type corpus struct {
	docs, queue, id string
	// waiting selects id and time of the documents of office $1 (and session $6) that the index does not have yet.
	waiting string
	// recent selects id, time and keys of the newest documents of office $1.
	recent string
	// recentOfSession is recent for session $6.
	recentOfSession string
}

// recentDocs is how many of the newest documents are looked through one by one before the index of keys is asked. A
// word that is in 2 of 100 entries fills a page from so many; a rarer one has few enough documents to be looked up.
const recentDocs = 1000

var entryCorpus = corpus{
	docs: "entry_search", queue: "entry_unsearched", id: "entry_id",
	waiting: `SELECT e.id, e.at FROM entry_unsearched w JOIN entries e ON e.id = w.entry_id
		WHERE w.office_key = $1 AND ($6 = '' OR e.session_id = $6)`,
	recent: `SELECT entry_id AS id, at, keys FROM entry_search WHERE office_key = $1 ORDER BY at DESC, entry_id DESC`,
	recentOfSession: `SELECT d.entry_id AS id, d.at, d.keys FROM entries e JOIN entry_search d ON d.entry_id = e.id
		WHERE e.session_id = $6 ORDER BY e.seq DESC`,
}

var chatCorpus = corpus{
	docs: "chat_search", queue: "chat_unsearched", id: "chat_id",
	waiting: `SELECT m.id, m.sent_at AS at FROM chat_unsearched w JOIN chat_log m ON m.id = w.chat_id
		WHERE w.office_key = $1 AND $6 = ''`,
	recent: `SELECT chat_id AS id, at, keys FROM chat_search WHERE office_key = $1 ORDER BY at DESC, chat_id DESC`,
}

// candidatesSQL finds documents that may match, newest first. Parameters: $1 office, $2 how many candidates among the
// recent documents are enough, $3 and $4 where the page before ended, $5 how many, $6 session or "", $7… sets of keys.
//
// It is one statement with two ways, of which the count of recent candidates opens exactly one: common words are found
// by going back through the newest documents, rare ones (and those that nothing has) by the index of keys. The office
// is concatenated with nothing so that the planner can only use the index of keys there; most often the keys hold the office too.
func (c corpus) candidatesSQL(sets int, session string) string {
	keys := make([]string, sets)
	for i := range keys {
		keys[i] = fmt.Sprintf("keys @> $%d::smallint[]", 7+i)
	}
	match := "(" + strings.Join(keys, " OR ") + ")"
	recent := c.recent
	if session != "" {
		recent = c.recentOfSession
	}
	return fmt.Sprintf(`
WITH recent AS MATERIALIZED (
    SELECT id, at FROM (%[1]s LIMIT %[2]d) newest WHERE %[3]s
), indexed AS NOT MATERIALIZED (
    SELECT %[4]s AS id, at FROM %[5]s
    WHERE %[3]s AND office_key || '' = $1 AND (SELECT count(*) FROM recent) < $2
)
SELECT id, at, (SELECT count(*) FROM recent) < $2 FROM (
    %[6]s
  UNION ALL
    SELECT id, at FROM recent WHERE (SELECT count(*) FROM recent) >= $2
  UNION ALL
    SELECT id, at FROM indexed
) found
WHERE $3::timestamptz IS NULL OR (at, id) < ($3, $4::bigint)
ORDER BY at DESC, id DESC LIMIT $5`, recent, recentDocs, match, c.id, c.docs, c.waiting)
}

// seeker holds candidates against the query and keeps those that match.
type seeker[T any] struct {
	corpus  corpus
	office  string
	session string
	query   search.Query
	load    func(ctx context.Context, q querier, ids []int64, each func(id int64, doc T) error) error
	text    func(T) string // "" for what must not match
	// sift, when set, leaves out documents that cannot match, for less than it takes to load them.
	sift func(ctx context.Context, q querier, query search.Query, ids []int64) ([]int64, error)
	// frequency is what the database's statistics say about keys.
	frequency search.Frequency
}

const (
	// candidates is how many candidates are taken at a time.
	candidates = 4000
	// So many of them are held against the query at first, and at most. The newest few often fill a page.
	firstBatch = 50
	lastBatch  = 2000
)

type candidate struct {
	id int64
	at time.Time
}

func (k seeker[T]) page(ctx context.Context, s *Store, page Page) (found []T, more bool, err error) {
	// One more than asked for tells whether there are more.
	need := page.Skip + page.Limit + 1
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		// A sequential scan reads all keys of all offices, whatever its estimate says.
		if _, err := tx.Exec(ctx, `SET LOCAL enable_seqscan = off`); err != nil {
			return err
		}
		if k.frequency, err = k.frequencies(ctx, tx); err != nil {
			return err
		}
		found, err = k.seek(ctx, tx, need)
		return err
	})
	if err != nil {
		return nil, false, translate(err)
	}
	more = len(found) == need
	found = found[min(page.Skip, len(found)):min(page.Skip+page.Limit, len(found))]
	reverse(found)
	return found, more, nil
}

// seek returns the newest documents that match, newest first, at most need.
func (k seeker[T]) seek(ctx context.Context, tx pgx.Tx, need int) ([]T, error) {
	enough := need
	var last *candidate
	var found []T
	for {
		list, indexed, err := k.candidates(ctx, tx, enough, last, max(candidates, need))
		if err != nil {
			return nil, err
		}
		for rest, size := list, firstBatch; len(rest) > 0 && len(found) < need; size = min(2*size, lastBatch) {
			batch := rest[:min(size, len(rest))]
			rest = rest[len(batch):]
			if found, err = k.verify(ctx, tx, batch, found, need); err != nil {
				return nil, err
			}
		}
		switch {
		case len(found) >= need || len(list) == 0:
			return found, nil
		case !indexed:
			// Some recent candidates had the keys without the words: start again with the index.
			enough, last, found = math.MaxInt32, nil, nil
		default:
			last = &list[len(list)-1]
		}
	}
}

// verify appends the documents of a batch that match, until there are need.
func (k seeker[T]) verify(ctx context.Context, q querier, batch []candidate, found []T, need int) ([]T, error) {
	ids := make([]int64, len(batch))
	for i, c := range batch {
		ids[i] = c.id
	}
	var err error
	if k.sift != nil {
		if ids, err = k.sift(ctx, q, k.query, ids); err != nil || len(ids) == 0 {
			return found, err
		}
	}
	err = k.load(ctx, q, ids, func(_ int64, doc T) error {
		if len(found) < need && k.query.Match(k.text(doc)) {
			found = append(found, doc)
		}
		return nil
	})
	return found, err
}

func (k seeker[T]) scopes() [][]search.Key {
	scopes := [][]search.Key{search.ScopeKeys("office", k.office)}
	if k.session != "" {
		scopes = append(scopes, search.ScopeKeys("session", k.session))
	}
	return scopes
}

// frequencies reads how common the query's keys were when the table was last analyzed. Without statistics, all count as
// rare.
func (k seeker[T]) frequencies(ctx context.Context, q querier) (search.Frequency, error) {
	rows, err := q.Query(ctx, `
		SELECT key, frequency::float8
		FROM pg_stats s, unnest(s.most_common_elems::text::smallint[], s.most_common_elem_freqs) AS common (key, frequency)
		WHERE s.schemaname = current_schema() AND s.tablename = $1 AND s.attname = 'keys' AND key = ANY($2::smallint[])`,
		k.corpus.docs, k.query.Sampled(k.scopes()...))
	if err != nil {
		return nil, err
	}
	known := map[search.Key]float64{}
	var key search.Key
	var frequency float64
	_, err = pgx.ForEachRow(rows, []any{&key, &frequency}, func() error {
		known[key] = frequency
		return nil
	})
	return func(key search.Key) float64 { return known[key] }, err
}

// statement is candidatesSQL with its arguments.
func (k seeker[T]) statement(enough int, last *candidate, limit int) (sql string, args []any) {
	sets := k.query.KeySets(k.frequency, k.scopes()...)
	args = []any{k.office, enough, nil, nil, limit, k.session}
	if last != nil {
		args[2], args[3] = last.at, last.id
	}
	for _, keys := range sets {
		args = append(args, keys)
	}
	return k.corpus.candidatesSQL(len(sets), k.session), args
}

// candidates lists documents after last, and tells whether the index was asked or the recent documents were enough.
func (k seeker[T]) candidates(ctx context.Context, q querier, enough int, last *candidate, limit int) (list []candidate, indexed bool, err error) {
	sql, args := k.statement(enough, last, limit)
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, false, err
	}
	var c candidate
	_, err = pgx.ForEachRow(rows, []any{&c.id, &c.at, &indexed}, func() error {
		list = append(list, c)
		return nil
	})
	return list, indexed, err
}

func reverse[T any](list []T) {
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
}

// rememberedSQL reads entries of any session in the order of $1, each tool result with the calls that it can answer:
// those of the assistant turn before it.
const rememberedSQL = `
SELECT e.id, e.session_id, e.seq, e.kind, coalesce(e.run_id, ''), coalesce(e.slot, ''), coalesce(e.message_id, ''), e.body,
	e.tokens, e.in_context, e.at,
	CASE WHEN e.kind = 'tool_result' THEN (
		SELECT jsonb_object_agg(c ->> 'callId', c ->> 'name')
		FROM (SELECT t.body FROM entries t WHERE t.session_id = e.session_id AND t.seq < e.seq AND t.kind = 'assistant'
			ORDER BY t.seq DESC LIMIT 1) turn, jsonb_array_elements(turn.body -> 'blocks') c
		WHERE c ->> 'kind' = 'tool_call' AND c ->> 'callId' IS NOT NULL) END
FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (id, place) JOIN entries e ON e.id = wanted.id
ORDER BY wanted.place`

func rememberedByID(ctx context.Context, q querier, ids []int64, each func(int64, Remembered) error) error {
	rows, err := q.Query(ctx, rememberedSQL, ids)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scanRemembered(rows)
		if err != nil {
			return err
		}
		if err := each(r.ID, r); err != nil {
			return err
		}
	}
	return rows.Err()
}

// siftEntries keeps the entries that may match, in their order.
func siftEntries(ctx context.Context, q querier, query search.Query, ids []int64) ([]int64, error) {
	rows, err := q.Query(ctx, `
		SELECT e.id, e.body::text FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (id, place)
		JOIN entries e ON e.id = wanted.id ORDER BY wanted.place`, ids)
	if err != nil {
		return nil, err
	}
	kept := make([]int64, 0, len(ids))
	var id int64
	var body string
	_, err = pgx.ForEachRow(rows, []any{&id, &body}, func() error {
		if query.MayMatch(body) {
			kept = append(kept, id)
		}
		return nil
	})
	return kept, err
}

func scanRemembered(row pgx.CollectableRow) (Remembered, error) {
	var r Remembered
	var body []byte
	err := row.Scan(&r.ID, &r.SessionID, &r.Seq, &r.Kind, &r.RunID, &r.Slot, &r.MessageID, &body, &r.Tokens, &r.InContext, &r.At, &r.Tools)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(body, &r.Body)
}

// searchText is what of an entry can match: what was said, called and printed, but for the history tool's own.
func searchText(r Remembered) string {
	var b strings.Builder
	add := func(text string) {
		if text != "" {
			b.WriteString(text)
			b.WriteByte('\n')
		}
	}
	add(r.Body.Summary)
	add(r.Body.Note)
	for _, block := range r.Body.Blocks {
		switch {
		case block.Kind == llm.BlockText:
			add(block.Text)
		case block.Kind == llm.BlockToolCall && block.Name != HistoryTool:
			add(block.Name)
			add(PlainArguments(block.Arguments))
		case block.Kind == llm.BlockToolResult && r.Tools[block.CallID] != HistoryTool:
			add(block.Text)
		}
	}
	return b.String()
}

// PlainArguments are a tool call's arguments as people write them: without the escapes of JSON, numbers with all their
// digits. Arguments that are no JSON object are returned as they are.
func PlainArguments(arguments string) string {
	decoder := json.NewDecoder(strings.NewReader(arguments))
	decoder.UseNumber()
	var b strings.Builder
	for depth := 0; ; {
		token, err := decoder.Token()
		if err != nil {
			if depth != 0 || b.Len() == 0 {
				return arguments
			}
			return strings.TrimSpace(b.String())
		}
		switch token := token.(type) {
		case json.Delim:
			if token == '{' || token == '[' {
				depth++
			} else {
				depth--
			}
		case string:
			b.WriteString(token + " ")
		default:
			fmt.Fprintf(&b, "%v ", token)
		}
	}
}

func chatByID(ctx context.Context, q querier, ids []int64, each func(int64, ChatMessage) error) error {
	rows, err := q.Query(ctx, `
		SELECT `+chatColumns+` FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (wanted_id, place)
		JOIN chat_log m ON m.id = wanted_id WHERE m.newest AND NOT m.deleted ORDER BY place`, ids)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		m, err := scanChat(rows)
		if err != nil {
			return err
		}
		if err := each(m.ID, m); err != nil {
			return err
		}
	}
	return rows.Err()
}

// chatText is what of a message can match: its author, its text and the names of its attachments.
func chatText(m ChatMessage) string {
	text := m.AuthorName + "\n" + m.Text
	for _, a := range m.Attachments {
		text += "\n" + a.Name
	}
	return text
}

func scanID(row pgx.CollectableRow) (id int64, err error) {
	err = row.Scan(&id)
	return id, err
}

func scanCollectedSession(row pgx.CollectableRow) (Session, error) { return scanSession(row) }

func scanCollectedChat(row pgx.CollectableRow) (ChatMessage, error) { return scanChat(row) }
