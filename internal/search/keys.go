package search

import (
	"hash/fnv"
	"math/bits"
	"unicode"
)

// Key stands for a few neighbouring characters, or for where a text belongs. Keys are hashes of 16 bits: two texts may
// share one by chance, so whatever an index finds by keys is held against the query once more. 16 bits keep an index
// small, and leave a text of 50 KB (some 6,000 keys) still a tenth of the key space.
type Key = int16

// characters is the key of one to three neighbours; absent ones are 0.
func characters(a, b, c rune) Key {
	// The finaliser of splitmix64 spreads the 63 bits over all others.
	h := uint64(a)<<42 | uint64(b)<<21 | uint64(c)
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return Key(uint16(h ^ h>>31))
}

// scopeKeys is how many keys say where a text belongs. Three by chance are one in 2^48.
const scopeKeys = 3

// ScopeKeys are the keys of all texts of one place: kind tells what it is, id which one.
func ScopeKeys(kind, id string) []Key {
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind + "\x00" + id))
	sum := h.Sum64()
	keys := make([]Key, scopeKeys)
	for i := range keys {
		keys[i] = Key(uint16(sum >> (16 * i)))
	}
	return keys
}

// Keys are the keys of a text, sorted and each once: every character of its words, every two neighbours, and every
// three where the script has spaces. No query reaches across a space, or from CJK into something else.
func Keys(text string, scopes ...[]Key) []Key {
	var seen [1 << 16 / 64]uint64
	mark := func(k Key) { seen[uint16(k)/64] |= 1 << (uint16(k) % 64) }
	for _, scope := range scopes {
		for _, k := range scope {
			mark(k)
		}
	}
	var before, last rune // 0 at the beginning of a run
	lastCJK := false
	for _, r := range text {
		if unicode.IsSpace(r) {
			before, last = 0, 0
			continue
		}
		r = fold(r)
		cjk := isCJK(r)
		if cjk != lastCJK {
			before, last, lastCJK = 0, 0, cjk
		}
		mark(characters(r, 0, 0))
		if last != 0 {
			mark(characters(last, r, 0))
		}
		if before != 0 && !cjk {
			mark(characters(before, last, r))
		}
		before, last = last, r
	}
	keys := make([]Key, 0, 256)
	for word, set := range seen {
		for ; set != 0; set &= set - 1 {
			keys = append(keys, Key(uint16(word*64+bits.TrailingZeros64(set))))
		}
	}
	return keys
}

const (
	// partKeys is how many keys of one part of a query are looked up: more would find hardly fewer texts.
	partKeys = 12
	// maxAlternatives bounds how many sets of keys one query becomes.
	maxAlternatives = 32
	// pairGroup is how many pairs of a CJK word are combined. Of some groups of pairs that together hold enough, at
	// least one group by itself holds its share.
	pairGroup = 4
)

// KeySets are the keys to look for: a text that matches has all keys of at least one set. There is always a set, and
// each holds the keys of the scopes.
func (q Query) KeySets(scopes ...[]Key) [][]Key {
	var base []Key
	for _, scope := range scopes {
		base = append(base, scope...)
	}
	for _, p := range q.parts {
		if p.text != "" {
			base = append(base, textKeys([]rune(p.text))...)
		}
	}
	sets := [][]Key{base}
	for _, p := range q.parts {
		alternatives := p.alternatives()
		if len(alternatives) == 0 || len(sets) > 1 && len(sets)*len(alternatives) > maxAlternatives {
			continue // found by the other parts, and held against this one then
		}
		var product [][]Key
		for _, set := range sets {
			for _, keys := range alternatives {
				product = append(product, append(append([]Key{}, set...), keys...))
			}
		}
		sets = product
	}
	return sets
}

func textKeys(text []rune) []Key {
	switch len(text) {
	case 1:
		return []Key{characters(text[0], 0, 0)}
	case 2:
		return []Key{characters(text[0], text[1], 0)}
	}
	threes := len(text) - 2
	count := min(threes, partKeys)
	keys := make([]Key, count)
	for i := range keys {
		at := i * threes / count
		keys[i] = characters(text[at], text[at+1], text[at+2])
	}
	return keys
}

// alternatives are sets of pairs of a CJK part; a text that holds enough pairs holds all of at least one set.
func (p part) alternatives() [][]Key {
	if len(p.pairs) == 0 {
		return nil
	}
	keys := make([]Key, len(p.pairs))
	for i, pair := range p.pairs {
		two := []rune(pair)
		keys[i] = characters(two[0], two[1], 0)
	}
	var sets [][]Key
	for start := 0; start < len(keys); start += pairGroup {
		group := keys[start:min(start+pairGroup, len(keys))]
		sets = append(sets, combinations(group, (len(group)+1)/2)...)
	}
	if len(sets) <= maxAlternatives {
		return sets
	}
	// So long a word has a simpler rule: leave out one pair less than may be missing, and one of the rest is there.
	sets = sets[:0]
	for _, k := range keys[:len(keys)-p.need+1] {
		sets = append(sets, []Key{k})
	}
	return sets
}

func combinations(keys []Key, n int) [][]Key {
	if n == 0 {
		return [][]Key{nil}
	}
	var sets [][]Key
	for i := 0; i+n <= len(keys); i++ {
		for _, rest := range combinations(keys[i+1:], n-1) {
			sets = append(sets, append([]Key{keys[i]}, rest...))
		}
	}
	return sets
}
