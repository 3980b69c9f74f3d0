package deaths

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
)

// spared are the beginnings of the fail points at which no process of these suites dies, each with the reason.
var spared = map[string]string{
	"import":                            "the import is one command that is given again; internal/migrate kills it at each of its points",
	"continued.":                        "needs a run of some three hundred steps; the statement counts the run's executions, and nothing else",
	"discord.whisper.delete":            "only what a late attempt has shown twice is taken back; see the tests of Discord's Delete",
	"github.delete":                     "the same, on GitHub",
	"slack.apps.connections.open.after": "the library connects again by itself; its loop ends with the process",
	"github.unreact":                    "nobody takes off yet that a message was seen",
}

// TestEachFailPointIsDiedAt finds a fail point that is in the sources and in nobody's way: the terminal's suite takes
// those that its play reaches, and a scene of a platform's the others.
func TestEachFailPointIsDiedAt(t *testing.T) {
	t.Parallel()
	points := e2etest.Failpoints(t)
	if len(points) < 200 {
		t.Fatalf("only %d fail points are found: %v", len(points), points)
	}
	reached := map[string]bool{}
	for _, on := range platforms {
		for _, d := range deaths(on, points) {
			reached[d.point] = true
		}
	}
	for _, point := range points {
		if !e2etest.OnPlatforms(point) || reached[point] {
			continue
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(spared)), func(prefix string) bool { return strings.HasPrefix(point, prefix) }) {
			t.Errorf("nobody dies at %s: have a scene reach it, or say why not", point)
		}
	}
}

// TestScenesReachWhatThereIs finds names in the scenes that no source has any more.
func TestScenesReachWhatThereIs(t *testing.T) {
	t.Parallel()
	points := e2etest.Failpoints(t)
	for _, sc := range scenes {
		for _, name := range sc.reaches {
			base, _, _ := strings.Cut(name, "@")
			if !slices.Contains(points, base) && !slices.Contains(points, base+".before") && !slices.Contains(points, base+".after") {
				t.Errorf("%s: there is no fail point %s", sc.name, base)
			}
		}
	}
}
