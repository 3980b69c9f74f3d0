package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/geminixiang/mikan/internal/store"
)

// verify reads an office's sessions again, from the files and from the database, and holds one against the other. Only
// then are the originals moved.
func (p *planner) verify(ctx context.Context, c *conversation, log *knownLog) error {
	if c.verified() {
		return nil
	}
	return p.each(ctx, c, func(ctx context.Context, _ int, f *sessionFile) error {
		if err := p.verifySession(ctx, f, log); err != nil {
			return fmt.Errorf("%s is not in the database as it is in the file: %w", f.path, err)
		}
		return nil
	})
}

// verified tells whether an earlier run held everything of an office against its files.
func (c *conversation) verified() bool {
	return c.ledger != nil && c.ledger.Verified && !slices.ContainsFunc(c.files, func(f *sessionFile) bool { return f.state == toImport })
}

func (p *planner) verifySession(ctx context.Context, f *sessionFile, log *knownLog) error {
	x, err := p.open(ctx, f, log)
	if err != nil {
		return err
	}
	defer func() { _ = x.file.Close() }()
	s, err := p.Store.SessionByID(ctx, f.id)
	if err != nil {
		return err
	}
	numbers := x.number()
	if s.NextSeq != numbers.total+1 || s.WindowSeq != numbers.window || s.WindowSession != s.ID || (s.SummaryEntry != 0) != (numbers.summary != 0) {
		return fmt.Errorf("it has %d entries there, and its context begins with %d; %d and %d were expected", s.NextSeq-1, s.WindowSeq, numbers.total, numbers.window)
	}
	next, stop := iter.Pull2(p.Store.EachEntry(ctx, f.id))
	defer stop()
	err = x.emit(ctx, x.file, log.represented.of(suffixOf(f.key)), contentOnly, func(want emitted) error {
		got, err, more := next()
		if err != nil {
			return err
		}
		if !more {
			return fmt.Errorf("entry %d is missing", want.Seq)
		}
		return same(want.Entry, got)
	})
	if err != nil {
		return err
	}
	if extra, err, more := next(); more {
		return errors.Join(fmt.Errorf("entry %d is too much", extra.Seq), err)
	}
	return nil
}

// same holds an entry as it should be against the one that the database has.
func same(want, got store.Entry) error {
	if got.Seq != want.Seq || got.Kind != want.Kind || got.InContext != want.InContext || got.MessageID != want.MessageID || !got.At.Equal(want.At) {
		return fmt.Errorf("entry %d has another kind, place or time", want.Seq)
	}
	want.Body.Raw, got.Body.Raw = nil, nil
	expected, err := json.Marshal(want.Body)
	if err != nil {
		return err
	}
	found, err := json.Marshal(got.Body)
	if err != nil {
		return err
	}
	if string(expected) != string(found) {
		return fmt.Errorf("entry %d has another content", want.Seq)
	}
	return nil
}
