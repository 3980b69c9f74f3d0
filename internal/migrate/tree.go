package migrate

import (
	"fmt"
	"slices"
)

// reach tells which records of a session's branch are marked as part of a context.
type reach int

const (
	// ofNewest marks what the model reads now; older records are there for history and for people.
	ofNewest reach = iota
	// ofAll also marks what a compaction or reset took out: threads may fork runs from before it, since the chat log
	// says which answer came from which run.
	ofAll
)

// link finds the parents, which may come later in the file than their children, and what compactions kept.
func (x *indexer) link() {
	missing := 0
	for i, hash := range x.parents {
		if hash == 0 {
			continue
		}
		parent, known := x.byID[hash]
		if !known {
			missing++
			continue
		}
		x.nodes[i].parent = parent
	}
	for at, hash := range x.keptIDs {
		if kept, known := x.byID[hash]; known {
			x.keepers[at] = kept
		}
	}
	if missing > 0 {
		x.repairs = append(x.repairs, repair{What: fmt.Sprintf("%d records name a parent that the file does not have; their branches begin with them", missing)})
	}
	x.byID, x.parents, x.keptIDs = nil, nil, nil
}

// climb marks the way from the newest record to its root.
func (x *index) climb() {
	at := int32(len(x.nodes) - 1)
	for ; at >= 0; at = x.nodes[at].parent {
		if x.nodes[at].is(onBranch) {
			x.repairs = append(x.repairs, repair{What: "the records form a circle; the branch ends where it closes"})
			break
		}
		x.nodes[at].flags |= onBranch
		x.branch = append(x.branch, at)
	}
	slices.Reverse(x.branch)
	for i := len(x.branch) - 1; i >= 0; i-- {
		at := x.branch[i]
		switch x.nodes[at].kind {
		case nodeReset:
			x.window, x.reset = i+1, at
			return
		case nodeCompaction:
			x.window, x.compacted = i+1, at
			if kept, known := x.keepers[at]; known && x.nodes[kept].is(onBranch) {
				if j := slices.Index(x.branch[:i], kept); j >= 0 {
					x.window = j
				}
			}
			return
		}
	}
}

// include marks what the model reads, from a position of the branch on, and notes which calls nobody answered. A result
// counts only while its call waits: no provider takes one that comes later, or twice, or for nothing.
func (x *index) include(how reach) {
	first := x.window
	if how == ofAll {
		first = 0
	}
	x.closers = map[int32][]closer{}
	var open []closer
	orphans := 0
	for _, at := range x.branch[first:] {
		n := &x.nodes[at]
		switch n.kind {
		case nodeUser, nodeAssistant:
			x.close(at, open)
			open = open[:0]
			n.flags |= inContext
			if n.kind == nodeAssistant {
				for i := range n.calls {
					open = append(open, closer{at, i})
				}
			}
		case nodeResult:
			i := slices.IndexFunc(open, func(c closer) bool { return x.call(c) == n.hash })
			if i < 0 {
				orphans++
				continue
			}
			open = slices.Delete(open, i, i+1)
			n.flags |= inContext
		}
	}
	x.close(atEnd, open)
	if orphans > 0 {
		x.repairs = append(x.repairs, repair{What: fmt.Sprintf("%d results that belong to no waiting call stay outside the model's context", orphans)})
	}
	closed := 0
	for _, calls := range x.closers {
		closed += len(calls)
	}
	if closed > 0 {
		x.repairs = append(x.repairs, repair{What: fmt.Sprintf("%d tool calls without a result were answered with an error that says the upgrade interrupted them", closed)})
	}
}

// atEnd is where results are made up that nothing follows.
const atEnd = int32(-1)

func (x *index) close(before int32, open []closer) {
	if len(open) > 0 {
		x.closers[before] = slices.Clone(open)
	}
}

func (x *index) call(c closer) uint64 {
	return x.calls[x.nodes[c.assistant].hash+uint64(c.ordinal)]
}

// arrange gives every node its place: the order of the file, but for a branch whose records stand in another order than
// they follow each other.
func (x *index) arrange() {
	x.order = make([]int32, 0, len(x.nodes))
	next := int32(0)
	others := func(until int32) {
		for ; next < until; next++ {
			if !x.nodes[next].is(onBranch) {
				x.order = append(x.order, next)
			}
		}
	}
	for _, at := range x.branch {
		others(at)
		x.order = append(x.order, at)
	}
	others(int32(len(x.nodes)))
}

// numbering is how the entries of a session are numbered.
type numbering struct {
	window  int64 // first position of the model's context
	summary int64 // position of the compaction that stands for what came before; 0 = none
	total   int64
}

// number tells where the context will begin, once every record and every made-up result has its position from 1.
func (x *index) number() numbering {
	n := numbering{window: 1}
	first := atEnd
	if x.window < len(x.branch) {
		first = x.branch[x.window]
	}
	for _, at := range x.order {
		n.total += int64(len(x.closers[at]))
		n.total++
		if at == first {
			n.window = n.total
		}
		if at == x.compacted {
			n.summary = n.total
		}
	}
	n.total += int64(len(x.closers[atEnd]))
	if first == atEnd {
		n.window = n.total + 1
	}
	return n
}
