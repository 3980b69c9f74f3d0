package migrate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"time"

	"github.com/tidwall/gjson"
)

// nodeKind is what a record is to the model's context.
type nodeKind uint8

const (
	nodeNote       nodeKind = iota // never part of it
	nodeUser                       // a person's words, or what stands for some
	nodeAssistant                  // a turn of the model
	nodeFailed                     // a turn that was aborted or failed
	nodeResult                     // a tool's result
	nodeCompaction                 // a summary for everything before
	nodeReset                      // the context starts anew
)

// node is one record of a session file. A file of millions of records has as many of them in memory, and nothing else.
type node struct {
	offset int64  // of the line that holds its value
	parent int32  // -1 at a root
	calls  uint32 // assistant turns: how many tool calls
	hash   uint64 // results: of the call's id; assistant turns: where theirs begin in index.calls
	kind   nodeKind
	flags  nodeFlags
}

type nodeFlags uint8

const (
	onBranch  nodeFlags = 1 << iota // an ancestor of the newest record, or that itself
	inContext                       // the model reads it
	synced                          // copied from the chat log
	prompt                          // begins a run
)

func (n node) is(f nodeFlags) bool { return n.flags&f != 0 }

// closer is a result that has to be made up for a tool call that nobody answered.
type closer struct {
	assistant int32
	ordinal   uint32
}

// index is what a session file holds, without its content.
type index struct {
	header    header
	name      string // the newest name that it was given
	size      int64
	hash      [sha256.Size]byte
	nodes     []node // by first appearance
	branch    []int32
	window    int // where in branch the model's context begins
	order     []int32
	calls     []uint64
	closers   map[int32][]closer // results to be made up before a node
	keepers   map[int32]int32    // by compaction: the first record that it kept
	floors    map[int32]time.Time
	compacted int32 // the compaction that the context begins with, -1 without one
	reset     int32 // the reset that it begins after, -1 without one
	cursor    cursor
	repairs   []repair
}

// cursor tells how far the chat log was copied into a session.
type cursor struct {
	Message string // "" when it was never
	At      time.Time
}

// repair is something that was put right, or left out, on the way in.
type repair struct {
	Line int    // 0: of the file as a whole
	What string // a sentence about it, without content of the record
}

// lineError refuses a file.
type lineError struct {
	Line  int
	Cause error
}

func (e *lineError) Error() string {
	if e.Line == 0 {
		return e.Cause.Error()
	}
	return fmt.Sprintf("line %d %v", e.Line, e.Cause)
}

func (e *lineError) Unwrap() error { return e.Cause }

// errPlaceholder is the error of a file without any line: 0.5.3 made such files before it had something to write.
var errPlaceholder = errors.New("is empty")

// maxRecords bounds a file: 32-bit positions are used for its records.
const maxRecords = 1 << 30

// indexer reads a file for the first time.
type indexer struct {
	index
	seed    maphash.Seed
	byID    map[uint64]int32
	parents []uint64 // hashes of the parents' ids, 0 at roots
	keptIDs map[int32]uint64
	check   func(o gjson.Result, r record) error
}

// readIndex reads a whole session file. check is asked about the content of every record; what it refuses, refuses the
// file. Errors: *lineError; errPlaceholder for a file without lines; context errors; those of the file system.
func readIndex(ctx context.Context, file *os.File, check func(gjson.Result, record) error) (*index, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	x := &indexer{seed: maphash.MakeSeed(), byID: map[uint64]int32{}, keptIDs: map[int32]uint64{}, check: check}
	x.keepers, x.floors, x.compacted, x.reset = map[int32]int32{}, map[int32]time.Time{}, -1, -1
	digest := sha256.New()
	lines := newLineReader(io.TeeReader(file, digest))
	defer lines.done()
	if err := x.readLines(ctx, lines); err != nil {
		return nil, err
	}
	digest.Sum(x.hash[:0])
	x.size = lines.offset
	x.link()
	x.climb()
	x.arrange()
	return &x.index, nil
}

func (x *indexer) readLines(ctx context.Context, lines *lineReader) error {
	var fragment []byte // of a line that could not be read, until it is known whether the next one repeats it
	var broken *lineError
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		l, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			if broken != nil {
				return broken
			}
			if n == 0 {
				return errPlaceholder
			}
			return nil
		case errors.Is(err, errTooLong):
			return &lineError{Line: l.number, Cause: err}
		case err != nil:
			return err
		}
		if broken != nil {
			// A write that was interrupted and repeated: half a record, then the same record whole.
			if !bytes.HasPrefix(l.bytes, fragment) {
				return broken
			}
			x.repairs = append(x.repairs, repair{Line: broken.Line, What: "half a record that is repeated whole on the next line was left out"})
			broken, fragment = nil, nil
		}
		if err := x.take(l); err != nil {
			var syntax *syntaxError
			switch {
			case errors.As(err, &syntax) && !l.ended && len(x.header.ID) > 0:
				x.repairs = append(x.repairs, repair{Line: l.number, What: "the last line was torn and is left out"})
				return nil
			case errors.As(err, &syntax) && len(x.header.ID) > 0 && len(l.bytes) < 4<<20:
				broken, fragment = &lineError{Line: l.number, Cause: err}, bytes.Clone(l.bytes)
			default:
				return &lineError{Line: l.number, Cause: err}
			}
		}
	}
}

// syntaxError marks a line that is no JSON: only such a line can be half a record.
type syntaxError struct{ error }

func (x *indexer) take(l line) error {
	o, err := parseObject(l.bytes)
	if err != nil {
		return &syntaxError{err}
	}
	if x.header.ID == "" {
		x.header, err = parseHeader(o)
		return err
	}
	r, err := parseRecord(o)
	if err != nil {
		return err
	}
	if r.Type == typeHeader {
		what := "the header is repeated"
		if id := str(o.Get("id")); id != x.header.ID {
			what = "a second header names another session; the first one counts"
		}
		x.repairs = append(x.repairs, repair{Line: l.number, What: what})
		return nil
	}
	if x.check != nil {
		if err := x.check(o, r); err != nil {
			return err
		}
	}
	return x.add(l, r)
}

func (x *indexer) add(l line, r record) error {
	id := x.sum(r.ID)
	at, repeated := x.byID[id]
	if repeated {
		x.repairs = append(x.repairs, repair{Line: l.number, What: "a record with the id of an earlier one takes its place"})
	} else {
		if len(x.nodes) >= maxRecords {
			return fmt.Errorf("is beyond the %d records that a session may have", maxRecords)
		}
		at = int32(len(x.nodes))
		x.byID[id] = at
		x.nodes = append(x.nodes, node{})
		x.parents = append(x.parents, 0)
	}
	n := node{offset: l.offset, parent: -1, kind: kindOf(r)}
	switch n.kind {
	case nodeAssistant:
		n.hash, n.calls = uint64(len(x.calls)), uint32(len(r.Calls))
		for _, call := range r.Calls {
			x.calls = append(x.calls, x.sum(call))
		}
	case nodeResult:
		n.hash = x.sum(r.CallID)
	case nodeCompaction:
		x.keptIDs[at] = x.sum(r.FirstKept)
	case nodeReset:
		x.floors[at] = r.Floor
	case nodeUser:
		if r.Role == roleUser && r.Own.Kind != "chat" {
			n.flags |= prompt
		}
	}
	x.nodes[at] = n
	x.parents[at] = 0
	if r.Parent != "" && r.Parent != r.ID {
		x.parents[at] = x.sum(r.Parent)
	}
	switch {
	case r.Custom == customSync:
		x.markSynced(at, r)
	case r.Type == typeInfo:
		x.name = r.Name
	}
	return nil
}

// markSynced marks the records before a chat_sync that it copied from the chat log.
func (x *indexer) markSynced(at int32, r record) {
	if r.LastID != "" {
		x.cursor = cursor{Message: r.LastID, At: r.At}
	}
	for i := at - 1; i >= 0 && r.Synced > 0; i-- {
		if k := x.nodes[i].kind; k != nodeUser && k != nodeAssistant {
			break
		}
		x.nodes[i].flags = x.nodes[i].flags&^prompt | synced
		r.Synced--
	}
}

func kindOf(r record) nodeKind {
	switch r.Type {
	case typeMessage:
		switch r.Role {
		case roleUser, roleCustom, roleBranchSummary, roleCompactionSummary:
			return nodeUser
		case roleBash:
			if !r.Excluded {
				return nodeUser
			}
		case roleAssistant:
			if r.Stop == "aborted" || r.Stop == "error" {
				return nodeFailed
			}
			return nodeAssistant
		case roleToolResult:
			return nodeResult
		}
	case typeCustomMessage, typeBranchSummary:
		return nodeUser
	case typeCompaction:
		return nodeCompaction
	case typeCustom:
		if r.Custom == customReset {
			return nodeReset
		}
	}
	return nodeNote
}

// sum is the hash by which ids are kept. Its seed is new for every file, so nobody can make two ids collide; it is never
// zero.
func (x *indexer) sum(id string) uint64 {
	return maphash.String(x.seed, id) | 1
}
