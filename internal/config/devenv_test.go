package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/config"
)

const devDatabase = "postgres://mikan:random-password@127.0.0.1:40001/mikan"

// devDir is the data directory of a dev that has written its addresses.
func devDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := config.WriteDevEnv(dir, map[string]string{
		"MIKAN_DATABASE_URL": devDatabase, "TEMPORAL_ADDRESS": "127.0.0.1:40002", "MIKAN_CODEC_KEY": aKey,
		"MIKAN_PUBLIC_URL": "http://127.0.0.1:40003",
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCommandsUseTheAddressesOfDev(t *testing.T) {
	t.Parallel()
	dir := devDir(t)
	for name, c := range map[string]struct {
		env               map[string]string
		adopted           bool
		database, address string
	}{
		"with nothing set":             {nil, true, devDatabase, "127.0.0.1:40002"},
		"with the database of dev":     {map[string]string{"MIKAN_DATABASE_URL": devDatabase}, true, devDatabase, "127.0.0.1:40002"},
		"with a database of one's own": {map[string]string{"MIKAN_DATABASE_URL": "postgres://prod/mikan"}, false, "postgres://prod/mikan", ""},
		"with a Temporal of one's own": {map[string]string{"TEMPORAL_ADDRESS": "prod:7233"}, false, "", "prod:7233"},
		"with both of one's own": {map[string]string{"MIKAN_DATABASE_URL": "postgres://prod/mikan", "TEMPORAL_ADDRESS": "prod:7233"},
			false, "postgres://prod/mikan", "prod:7233"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := config.Load(environment(c.env), dir)
			if err != nil {
				t.Fatal(err)
			}
			if got.DatabaseURL.Reveal() != c.database || got.Temporal.Address != c.address || (got.DevEnv != "") != c.adopted {
				t.Errorf("database %q, Temporal %q, file %q", got.DatabaseURL.Reveal(), got.Temporal.Address, got.DevEnv)
			}
			if got.CodecKey.IsSet() != c.adopted {
				t.Error("the other values do not follow")
			}
		})
	}
}

func TestTheEnvironmentWinsOverDevForEverythingElse(t *testing.T) {
	t.Parallel()
	c, err := config.Load(environment(map[string]string{"MIKAN_PUBLIC_URL": "https://mine"}), devDir(t))
	if err != nil || c.PublicURL != "https://mine" || c.Temporal.Address != "127.0.0.1:40002" {
		t.Errorf("got %q and %q, %v", c.PublicURL, c.Temporal.Address, err)
	}
}

func TestDevItselfIgnoresWhatAnEarlierDevLeft(t *testing.T) {
	t.Parallel()
	c, err := config.LoadForDev(environment(nil), devDir(t))
	if err != nil || c.DatabaseURL != "" || c.Temporal.Address != "" || c.DevEnv != "" {
		t.Errorf("got %q and %q, %v", c.DatabaseURL.Reveal(), c.Temporal.Address, err)
	}
}

func TestDevNeverReachesTheClusterOfAConfigurationFile(t *testing.T) {
	// The SDK finds the file by the process's own environment.
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("HOME", home)
	userDir, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(userDir, "temporalio", "temporal.toml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	toml := "[profile.default]\naddress = \"prod:7233\"\napi_key = \"from-the-file\"\n"
	if err := os.WriteFile(path, []byte(toml), 0o600); err != nil {
		t.Fatal(err)
	}

	outside, err := config.Load(environment(nil), t.TempDir())
	if err != nil || outside.Temporal.Address != "prod:7233" || outside.Secrets()["TEMPORAL_API_KEY"] != "from-the-file" {
		t.Errorf("Load reads %q, %v from the file", outside.Temporal.Address, err)
	}
	dev, err := config.LoadForDev(environment(nil), t.TempDir())
	if err != nil || dev.Temporal.Address != "" || dev.Temporal.APIKey != "" {
		t.Errorf("dev would use %q, %v", dev.Temporal.Address, err)
	}
	beside, err := config.Load(environment(nil), devDir(t))
	if err != nil || beside.Temporal.Address != "127.0.0.1:40002" || beside.Temporal.APIKey != "" {
		t.Errorf("a command beside dev would use %q, %v", beside.Temporal.Address, err)
	}
	named, err := config.LoadForDev(environment(map[string]string{"TEMPORAL_CONFIG_FILE": path}), t.TempDir())
	if err != nil || named.Temporal.Address != "prod:7233" {
		t.Errorf("a named file gives %q, %v", named.Temporal.Address, err)
	}
}

func TestTheFileOfDevIsPrivateAndReplacedWhole(t *testing.T) {
	t.Parallel()
	dir := devDir(t)
	if err := config.WriteDevEnv(dir, map[string]string{"TEMPORAL_ADDRESS": "127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, config.DevEnvFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	raw, err := os.ReadFile(path)
	if err != nil || string(raw) != "TEMPORAL_ADDRESS=127.0.0.1:1\n" {
		t.Errorf("the file holds %q, %v", raw, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("beside it lie %v, %v", left, err)
	}
	if err := config.WriteDevEnv(dir, map[string]string{"A": "x\ny"}); err == nil {
		t.Error("a value of two lines was written")
	}
}

func TestABrokenDevFileIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, config.DevEnvFile), []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(environment(nil), dir)
	if err == nil || !strings.Contains(err.Error(), config.DevEnvFile) || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("got %v", err)
	}
}

func TestTheDefaultDataDirectory(t *testing.T) {
	t.Parallel()
	if dir, err := config.DefaultDataDir(environment(map[string]string{"HOME": "/h"})); err != nil || !strings.HasPrefix(dir, "/h/") || filepath.Base(dir) != "mikan" {
		t.Errorf("got %q, %v", dir, err)
	}
	if dir, err := config.DefaultDataDir(environment(map[string]string{"XDG_STATE_HOME": "relative"})); err == nil {
		t.Errorf("without HOME it is %q", dir)
	}
	_, err := config.Load(environment(nil), "")
	if err == nil || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("got %v", err)
	}
}
