// Package deployments_test holds the files of this directory against the program that they are about.
package deployments_test

import (
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/geminixiang/mikan/internal/telemetry"
)

// TestDashboardAndAlertsNameMetricsThatExist finds a metric that was renamed: its panel would be empty and its alert
// silent, and nobody would notice.
func TestDashboardAndAlertsNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	known := metrics(t)
	for _, path := range []string{"grafana/mikan.json", "prometheus/alerts.yml"} {
		named := regexp.MustCompile(`\bmikan_[a-z_]+`).FindAllString(read(t, path), -1)
		if len(named) == 0 {
			t.Errorf("%s names no metric of mikan's", path)
		}
		for _, name := range named {
			if !known[name] && !known[histogram(name)] {
				t.Errorf("%s names %s, which mikan does not have", path, name)
			}
		}
	}
}

// histogram is the metric that a series such as x_bucket belongs to.
func histogram(series string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, found := strings.CutSuffix(series, suffix); found {
			return name
		}
	}
	return series
}

// metrics lists mikan's own, also those of which nothing has been observed yet.
func metrics(t *testing.T) map[string]bool {
	t.Helper()
	m, err := telemetry.NewMetrics(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	registry, ok := m.Registerer().(*prometheus.Registry)
	if !ok {
		t.Fatal("the registry cannot be asked what it describes")
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		registry.Describe(descriptions)
	}()
	known := map[string]bool{}
	for d := range descriptions {
		if found := regexp.MustCompile(`fqName: "(mikan_[a-z_]+)"`).FindStringSubmatch(d.String()); found != nil {
			known[found[1]] = true
		}
	}
	if len(known) == 0 {
		t.Fatal("mikan has no metrics")
	}
	return known
}

// TestVariablesThatFilesSetAreRead finds a variable that was renamed or misspelt: it would be ignored without a word.
func TestVariablesThatFilesSetAreRead(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, path := range files(t, "../internal/config", ".go") {
		if !strings.HasSuffix(path, "_test.go") {
			source.WriteString(read(t, path))
		}
	}
	others := []string{
		"MIKAN_POSTGRES_PASSWORD",                                                                                                                // compose.yaml's own
		"MIKAN_KILLS", "MIKAN_STORM", "MIKAN_WALKS", "MIKAN_RECORD", "MIKAN_FREEZE", "MIKAN_DEATHS", "MIKAN_STEPS", "MIKAN_QUEUED", "MIKAN_LOAD", // the tests'
	}
	for _, path := range append(files(t, ".", ""), "../README.md") {
		if strings.HasPrefix(path, "devserver") || strings.HasPrefix(path, "images") || strings.HasSuffix(path, ".go") {
			continue
		}
		for _, name := range regexp.MustCompile(`\bMIKAN_[A-Z_]+\b`).FindAllString(read(t, path), -1) {
			if !strings.Contains(source.String(), `"`+name+`"`) && !slices.Contains(others, name) {
				t.Errorf("%s names %s, which mikan does not read", path, name)
			}
		}
	}
}

// TestEveryTableSaysHowItGrows finds a table that nobody has decided about.
func TestEveryTableSaysHowItGrows(t *testing.T) {
	t.Parallel()
	guide := read(t, "operating.md")
	from := strings.Index(guide, "## What grows")
	guide = guide[from : from+strings.Index(guide[from+1:], "\n## ")]
	said := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\|([^|]*)\|`).FindAllStringSubmatch(guide, -1) {
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[1], -1) {
			said[name[1]] = true
		}
	}
	created := map[string]bool{}
	for _, path := range files(t, "../internal/store/migrations", ".sql") {
		up, _, _ := strings.Cut(read(t, path), "-- +goose Down")
		for _, table := range regexp.MustCompile(`(?m)^CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(\w+)`).FindAllStringSubmatch(up, -1) {
			created[table[1]] = true
			if !said[table[1]] {
				t.Errorf("operating.md does not say what %s grows with and who prunes it", table[1])
			}
		}
	}
	for name := range said {
		if !created[name] {
			t.Errorf("operating.md speaks of %s, which is no table", name)
		}
	}
}

// TestFilesParse covers what no program of this repository reads. Helm's templates are no YAML before they are filled in.
func TestFilesParse(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		Panels []json.RawMessage `json:"panels"`
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/mikan.json")), &dashboard); err != nil || len(dashboard.Panels) == 0 {
		t.Errorf("grafana/mikan.json has %d panels, %v", len(dashboard.Panels), err)
	}
	for _, path := range append(files(t, ".", ".yaml"), files(t, ".", ".yml")...) {
		if strings.Contains(path, "templates") || strings.HasPrefix(path, "devserver") {
			continue
		}
		var content map[string]any
		if err := yaml.Unmarshal([]byte(read(t, path)), &content); err != nil || len(content) == 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestLinksInTheDocumentsLead follows every relative link.
func TestLinksInTheDocumentsLead(t *testing.T) {
	t.Parallel()
	for _, path := range append(files(t, ".", ".md"), "../README.md") {
		for _, found := range regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`).FindAllStringSubmatch(read(t, path), -1) {
			target := found[1]
			if strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), filepath.FromSlash(target))); err != nil {
				t.Errorf("%s has a link to %s: %v", path, target, err)
			}
		}
	}
}

func files(t *testing.T, root, extension string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, extension) {
			found = append(found, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("no files %s in %s: %v", extension, root, err)
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
