package deaths

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/e2e/e2etest"
	"github.com/geminixiang/mikan/internal/office"
)

var platforms = []office.Platform{office.Slack, office.Discord, office.Telegram, office.GitHub}

// lanes is how many deaths of one platform go on at once.
const lanes = 2

// few are the points at which processes die unless MIKAN_DEATHS is all: where an answer is most easily lost or repeated.
var few = map[office.Platform][]string{
	office.Slack:    {"slack.ack.before", "slack.chat.startStream.after", "platform.post.after"},
	office.Discord:  {"platform.post.after", "platform.edit.after", "settle.commit.before"},
	office.Telegram: {"telegram.getupdates.after", "platform.post.after", "platform.edit.after"},
	office.GitHub:   {"github.comment.after", "github.permission.after", "github.cursor.before"},
}

// death is a point to die at, and the scene that leads there.
type death struct {
	scene scene
	point string
}

// deaths lists what a platform's processes can die of.
func deaths(on office.Platform, points []string) []death {
	var all []death
	for _, sc := range scenes {
		if len(sc.on) > 0 && !slices.Contains(sc.on, on) {
			continue
		}
		for _, point := range points {
			if sc.leads(on, point) {
				all = append(all, death{sc, point})
			}
		}
	}
	return all
}

// leads tells whether a scene brings a platform's processes to a point.
func (sc scene) leads(on office.Platform, point string) bool {
	base := strings.TrimSuffix(strings.TrimSuffix(point, ".before"), ".after")
	return slices.ContainsFunc(sc.reaches, func(name string) bool {
		name, only, narrowed := strings.Cut(name, "@")
		if owner, _, _ := strings.Cut(name, "."); slices.Contains(platforms, office.Platform(owner)) {
			only, narrowed = owner, true
		}
		return (name == base || name == point) && (!narrowed || slices.Contains(strings.Split(only, ","), string(on)))
	})
}

func TestADeathBeforeAPlatformLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	points := e2etest.Failpoints(t)
	for _, on := range platforms {
		all, abreast := deaths(on, points), lanes
		if os.Getenv("MIKAN_DEATHS") != "all" {
			all = slices.DeleteFunc(all, func(d death) bool { return !slices.Contains(few[on], d.point) })
			abreast = len(few[on])
			if len(all) != abreast {
				t.Errorf("%s: %d of %v are in a scene", on, len(all), few[on])
			}
		}
		for i := range abreast {
			t.Run(string(on), func(t *testing.T) {
				t.Parallel()
				var l *lane
				for n := i; n < len(all); n += abreast {
					d := all[n]
					if l == nil {
						l = newLane(t, on)
					}
					if !t.Run(d.scene.name+"/"+d.point, func(t *testing.T) { l.play(t, d.scene, d.point) }) {
						l = nil // what is left there would fail the next ones, too
					}
				}
			})
		}
	}
}

// TestEachSceneComesToItsEnd plays the scenes with nobody dying: what fails here is no matter of deaths.
func TestEachSceneComesToItsEnd(t *testing.T) {
	if os.Getenv("MIKAN_DEATHS") != "all" {
		t.Skip("belongs to the long run, with MIKAN_DEATHS=all")
	}
	t.Parallel()
	for _, on := range platforms {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			l := newLane(t, on)
			for _, sc := range scenes {
				if len(sc.on) > 0 && !slices.Contains(sc.on, on) {
					continue
				}
				t.Run(sc.name, func(t *testing.T) { l.play(t, sc, "") })
			}
		})
	}
}
