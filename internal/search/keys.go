package search

import (
	"cmp"
	"hash/fnv"
	"math/bits"
	"slices"
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

// ScopeKeys are the keys of all texts of one place: kind tells what it is, id which one.
func ScopeKeys(kind, id string) []Key {
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind + "\x00" + id))
	return []Key{Key(uint16(h.Sum64()))}
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
	// sampledKeys is how many keys of one part of a query are considered, and partKeys how many of them are looked up,
	// once it is known which are rare: more would find hardly fewer texts, and each costs a look at its list.
	sampledKeys = 12
	partKeys    = 4
	// commonKey is the share of texts from which on to look at a key's list costs more than the texts that it rules out.
	commonKey = 0.5
	// maxProduct bounds how many sets of keys several CJK words together become.
	maxProduct = 64
	// maxCombinations bounds how many sets of keys one CJK word becomes, where its length allows.
	maxCombinations = 70
	// largestGroup and smallestGroup are how many pairs of a CJK word are combined. Of groups of pairs that together
	// hold half of theirs, at least one by itself holds half of its own: the larger a group, the fewer texts have that
	// by chance, but 8 pairs have 70 halves.
	largestGroup  = 8
	smallestGroup = 3
)

// Frequency tells in which share of all texts a key is; 0 when that is not known, as for rare ones.
type Frequency func(Key) float64

// Sampled are the keys whose frequency KeySets asks for.
func (q Query) Sampled(scopes ...[]Key) []Key {
	keys := slices.Concat(scopes...)
	for _, p := range q.parts {
		if p.text != "" {
			keys = append(keys, textKeys([]rune(p.text))...)
		}
	}
	return keys
}

// KeySets are the keys to look for: a text of the scopes that matches has all keys of at least one set. There is always
// a set, and none is empty. A key that most texts have may be left out.
func (q Query) KeySets(frequency Frequency, scopes ...[]Key) [][]Key {
	rarer := func(a, b Key) int { return cmp.Compare(frequency(a), frequency(b)) }
	base := slices.Concat(scopes...)
	pairs := false
	for _, p := range q.parts {
		pairs = pairs || len(p.pairs) > 0
		if p.text != "" {
			keys := textKeys([]rune(p.text))
			slices.Sort(keys)
			keys = slices.Compact(keys)
			slices.SortStableFunc(keys, rarer)
			base = append(base, keys[:min(partKeys, len(keys))]...)
		}
	}
	slices.SortStableFunc(base, rarer)
	common := slices.IndexFunc(base, func(k Key) bool { return frequency(k) > commonKey })
	if common == 0 && !pairs {
		common = 1
	}
	if common >= 0 {
		base = base[:min(common, len(base))]
	}
	sets := [][]Key{base}
	for _, p := range q.parts {
		alternatives := p.alternatives()
		if len(alternatives) == 0 || len(sets) > 1 && len(sets)*len(alternatives) > maxProduct {
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
	count := min(threes, sampledKeys)
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
	for size := largestGroup; ; size-- {
		groups := (len(keys) + size - 1) / size
		var sets [][]Key
		for i := range groups {
			group := keys[i*len(keys)/groups : (i+1)*len(keys)/groups]
			sets = append(sets, combinations(group, (len(group)+1)/2)...)
		}
		if len(sets) <= maxCombinations || size == smallestGroup {
			return sets
		}
	}
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
