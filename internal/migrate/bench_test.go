package migrate_test

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkImport imports a conversation of 500 sessions with 20,000 records into a database, verification included. It reports records a
// second; MB/s is of the files.
func BenchmarkImport(b *testing.B) {
	const sessions, records = 500, 40
	for b.Loop() {
		b.StopTimer()
		c := newSite(b)
		var size int
		for s := range sessions {
			var text strings.Builder
			text.WriteString(head(fmt.Sprintf("s%d", s)))
			for i := range records / 4 {
				parent := ""
				if i > 0 {
					parent = fmt.Sprintf("d%d", i-1)
				}
				id := func(kind string) string { return fmt.Sprintf("%s%d", kind, i) }
				said := strings.Repeat("some words that were said ", 12)
				text.WriteString(jsonl(user(id("a"), parent, said), assistant(id("b"), id("a"), said, "k"), result(id("c"), id("b"), "k", said), assistant(id("d"), id("c"), said)))
			}
			c.write(fmt.Sprintf("%s%d.1.jsonl", session, s), text.String())
			size += text.Len()
		}
		b.SetBytes(int64(size))
		b.StartTimer()
		c.mustRun()
	}
	b.ReportMetric(sessions*records*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
