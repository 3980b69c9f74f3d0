package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/geminixiang/mikan/internal/search"
)

// indexBatch is how many documents one transaction moves into an index.
const indexBatch = 1000

// IndexHistory moves what was appended since the last time into the indexes that searches use, and tells how much that
// was. It is no part of appending because the index of keys takes several times as long as the entry itself; until it
// has run, searches look through the rest one by one. Several processes may run it at once.
func (s *Store) IndexHistory(ctx context.Context) (indexed int, err error) {
	for _, move := range []func(context.Context) (int, error){s.indexEntries, s.indexChat} {
		n, err := move(ctx)
		if err != nil {
			return indexed, err
		}
		indexed += n
	}
	return indexed, nil
}

func (s *Store) indexEntries(ctx context.Context) (int, error) {
	return indexDocs(ctx, s, entryCorpus, rememberedByID, func(r Remembered, office string) (doc, bool) {
		text := searchText(r)
		return doc{
			id: r.ID, office: office, at: r.At,
			keys: search.Keys(text, search.ScopeKeys("office", office), search.ScopeKeys("session", r.SessionID)),
		}, text != ""
	})
}

func (s *Store) indexChat(ctx context.Context) (int, error) {
	return indexDocs(ctx, s, chatCorpus, chatByID, func(m ChatMessage, office string) (doc, bool) {
		return doc{id: m.ID, office: office, at: m.SentAt, keys: search.Keys(chatText(m), search.ScopeKeys("office", office))}, true
	})
}

type doc struct {
	id     int64
	office string
	at     time.Time
	keys   []search.Key
}

// indexDocs moves batches until the queue is empty. describe also tells of a document whether anything of it can match.
func indexDocs[T any](ctx context.Context, s *Store, c corpus,
	load func(context.Context, querier, []int64, func(int64, T) error) error, describe func(loaded T, office string) (doc, bool),
) (total int, err error) {
	for {
		taken := 0
		// What is lost with a crash of the database is still in the queue then.
		err := s.txUnforced(ctx, "index", func(tx pgx.Tx) error {
			offices, err := takeBatch(ctx, tx, c)
			if err != nil {
				return err
			}
			taken = len(offices)
			var docs []doc
			err = load(ctx, tx, slices.Sorted(maps.Keys(offices)), func(id int64, loaded T) error {
				if d, matchable := describe(loaded, offices[id]); matchable {
					docs = append(docs, d)
				}
				return nil
			})
			if err != nil {
				return err
			}
			_, err = tx.CopyFrom(ctx, pgx.Identifier{c.docs}, []string{c.id, "office_key", "at", "keys"},
				pgx.CopyFromSlice(len(docs), func(i int) ([]any, error) {
					return []any{docs[i].id, docs[i].office, docs[i].at, docs[i].keys}, nil
				}))
			return err
		})
		if err != nil {
			return total, err
		}
		total += taken
		if taken < indexBatch {
			break
		}
	}
	if total == 0 {
		return 0, nil
	}
	// The index keeps new keys in a list that every search reads through; sorting many of them in at once is cheap.
	_, err = s.pool.Exec(ctx, `SELECT gin_clean_pending_list('`+c.docs+`_keys'::regclass)`)
	return total, translate(err)
}

// takeBatch removes documents from the queue and returns their offices. What another process is at work on is left to it.
func takeBatch(ctx context.Context, tx pgx.Tx, c corpus) (map[int64]string, error) {
	rows, err := tx.Query(ctx, `
		DELETE FROM `+c.queue+` WHERE ctid = ANY(ARRAY(
			SELECT ctid FROM `+c.queue+` ORDER BY office_key, `+c.id+` LIMIT $1 FOR UPDATE SKIP LOCKED))
		RETURNING `+c.id+`, office_key`, indexBatch)
	if err != nil {
		return nil, err
	}
	offices := map[int64]string{}
	var id int64
	var office string
	_, err = pgx.ForEachRow(rows, []any{&id, &office}, func() error {
		offices[id] = office
		return nil
	})
	return offices, err
}
