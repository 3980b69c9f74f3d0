package search_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/search"
)

func parse(t testing.TB, query string) search.Query {
	t.Helper()
	q, err := search.Parse(query)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestMatching(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		query, text string
		want        bool
	}{
		"case is ignored":                           {"DEPLOY", "we Deploy today", true},
		"a part of a word":                          {"ploy", "redeployment", true},
		"words in any order":                        {"sha1sum date", "date +%s%N | sha1sum", true},
		"every word is needed":                      {"date +%s%N sha1sum", "date +%s%N", false},
		"signs count":                               {"+%s%N", "date +%s%n", true},
		"a word may not be split":                   {"deploy", "de ploy", false},
		"one letter":                                {"x", "a X b", true},
		"one sign that is absent":                   {"§", "paragraph 4", false},
		"Greek final sigma":                         {"ΟΔΟΣ", "η οδος και η οδός", true},
		"accents are not ignored":                   {"cafe", "café", false},
		"umlauts in capitals":                       {"ÄRGER", "ärger", true},
		"Cyrillic":                                  {"ПРИВЕТ", "скажи привет", true},
		"a whole Chinese word":                      {"部署计划", "今天的部署计划是", true},
		"one of two pairs is half":                  {"部署了", "部署计划", true},
		"two of three pairs":                        {"数据库迁", "数据和据库", true},
		"one of three pairs is less than half":      {"数据库迁", "数据", false},
		"two of four pairs are half":                {"数据库迁移", "数据 与 迁移", true},
		"characters without their neighbours":       {"部署", "部门签署", false},
		"a single Chinese character":                {"猫", "一只猫", true},
		"a single Chinese character that is absent": {"狗", "一只猫", false},
		"Japanese":                                  {"データベース", "新しいデータベースです", true},
		"Korean with another ending":                {"배포했습니다", "배포했습니까", true},
		"Korean, another word":                      {"배포했습니다", "삭제했습니까", false},
		"a mixed word needs both kinds":             {"部署v2", "部署 v2 完成", true},
		"a mixed word without its Latin part":       {"部署v2", "部署 v3 完成", false},
		"a repeated pair counts once":               {"哈哈哈哈", "哈哈", true},
		"an emoji":                                  {"🎉", "done 🎉!", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := parse(t, c.query)
			if got := q.Match(c.text); got != c.want {
				t.Errorf("%q in %q: %v", c.query, c.text, got)
			}
			if _, found := q.First(c.text); c.want && !found {
				t.Errorf("%q has no place in %q", c.query, c.text)
			}
		})
	}
}

func TestRefusedQueries(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"", "  \t\n", strings.Repeat("a", search.MaxQuery+1)} {
		if _, err := search.Parse(query); fault.CodeOf(err) != fault.Invalid {
			t.Errorf("%.10q gives %v", query, err)
		}
	}
}

func TestThePlaceOfAMatchIsCountedInCharacters(t *testing.T) {
	t.Parallel()
	if at, found := parse(t, "needle").First("日本語 ÄÖ Needle"); !found || at != 7 {
		t.Errorf("at %d, %v", at, found)
	}
}

func unknown(search.Key) float64 { return 0 }

// covered tells whether an index by keys would find the text.
func covered(q search.Query, text string, frequency search.Frequency) bool {
	office := search.ScopeKeys("office", "o")
	have := search.Keys(text, office)
	for _, set := range q.KeySets(frequency, office) {
		if len(set) > 0 && !slices.ContainsFunc(set, func(k search.Key) bool { return !slices.Contains(have, k) }) {
			return true
		}
	}
	return false
}

func TestKeysNeverMissAMatch(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune("abAB1%. \n部署计划数据库データ배포ーÄßςσİ🎉")
	pick := func(n int) string {
		letters := make([]rune, n)
		for i := range letters {
			letters[i] = alphabet[random.IntN(len(alphabet))]
		}
		return string(letters)
	}
	matches := 0
	for range 30_000 {
		text := pick(1 + random.IntN(60))
		// Pieces of the text, sometimes damaged, match often enough to be worth asking.
		runes := []rune(text)
		from := random.IntN(len(runes))
		query := string(runes[from : from+random.IntN(len(runes)-from)+1])
		if random.IntN(2) == 0 {
			query += pick(1 + random.IntN(3))
		}
		if random.IntN(3) == 0 {
			query = strings.ToUpper(query)
		}
		q, err := search.Parse(query)
		if err != nil {
			continue
		}
		if q.Match(text) {
			matches++
			// Whatever is thought to be common.
			chance := random.Float64()
			if !covered(q, text, unknown) || !covered(q, text, func(search.Key) float64 { return chance * 2 * random.Float64() }) {
				t.Fatalf("%q matches %q, and its keys do not find it", query, text)
			}
		}
	}
	if matches < 5000 {
		t.Errorf("only %d matches: the test says little", matches)
	}
}

func TestLongQueriesStayFewSetsOfKeys(t *testing.T) {
	t.Parallel()
	long := make([]rune, search.MaxQuery)
	for i := range long {
		long[i] = rune(0x4E00 + i*7)
	}
	for name, query := range map[string]string{
		"one CJK word":   string(long),
		"many CJK words": strings.Repeat("数据库迁移 部署计划 ", 45),
		"a Latin word":   strings.Repeat("abcdefghij", 50),
	} {
		sets := parse(t, query).KeySets(unknown)
		if len(sets) == 0 || len(sets) > 2*search.MaxQuery {
			t.Errorf("%s: %d sets", name, len(sets))
		}
		if !covered(parse(t, query), query, unknown) {
			t.Errorf("%s: its keys do not find itself", name)
		}
	}
}

func TestOfficesHaveKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	q := parse(t, "deploy")
	text := search.Keys("we deploy", search.ScopeKeys("office", "one"))
	for _, set := range q.KeySets(unknown, search.ScopeKeys("office", "two")) {
		if !slices.ContainsFunc(set, func(k search.Key) bool { return !slices.Contains(text, k) }) {
			t.Error("another office's text is found")
		}
	}
}

func BenchmarkKeysOf50KB(b *testing.B) {
	text := strings.Repeat("2026-01-31 09:00:00 request 123 took 45ms path=/api/v1/things status=200\n", 700)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		search.Keys(text)
	}
}

func TestWhatIsSiftedOutCannotMatch(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	alphabet := []rune("abAB1%\"\\/\t. \n部署计划ßςKé🎉\u0001")
	sifted := 0
	for range 20_000 {
		text := make([]rune, 1+random.IntN(30))
		for i := range text {
			text[i] = alphabet[random.IntN(len(alphabet))]
		}
		from := random.IntN(len(text))
		q, err := search.Parse(string(text[from:min(len(text), from+1+random.IntN(6))]))
		if err != nil {
			continue
		}
		if random.IntN(2) == 0 {
			slices.Reverse(text)
		}
		encoded, err := json.Marshal(map[string]string{"text": string(text)})
		if err != nil {
			t.Fatal(err)
		}
		may := q.MayMatch(string(encoded))
		if q.Match(string(text)) && !may {
			t.Fatalf("%s is sifted out and matches", encoded)
		}
		if !may {
			sifted++
		}
	}
	if sifted < 500 {
		t.Errorf("only %d texts were sifted out", sifted)
	}
}

func TestRareKeysAreLookedUpAndCommonOnesLeftOut(t *testing.T) {
	t.Parallel()
	office := search.ScopeKeys("office", "o")
	common := search.Keys("message", office)
	sets := parse(t, "message 748291").KeySets(func(k search.Key) float64 {
		if slices.Contains(common, k) {
			return 0.9
		}
		return 0.01
	}, office)
	if len(sets) != 1 || len(sets[0]) == 0 || slices.ContainsFunc(sets[0], func(k search.Key) bool { return slices.Contains(common, k) }) {
		t.Errorf("looked up: %v", sets)
	}
	if sets := parse(t, "message").KeySets(func(search.Key) float64 { return 1 }, office); len(sets) != 1 || len(sets[0]) == 0 {
		t.Errorf("nothing is left to look up: %v", sets)
	}
}
