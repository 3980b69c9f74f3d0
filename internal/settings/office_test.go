package settings_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/settings"
)

func stored(pairs ...string) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return m
}

func TestAnOfficeOverridesTheInstallationWhichOverridesTheConfiguration(t *testing.T) {
	t.Parallel()
	c := config.Settings{
		Instructions: "be brief", SpendLimitUSD: 5, Tools: map[string]config.Switch{"bash": config.Off, "write": config.Off},
		Admins: map[office.Platform][]string{office.Slack: {"U1"}, office.Discord: {"9"}},
	}
	installation := stored("timezone", `"Europe/Berlin"`, "spend-limit", `2.5`, "admins", `["U2"]`, "tools", `{"bash":"on"}`, "instructions", `"be kind"`)
	e := settings.Effective(c, "slack", installation, stored("timezone", `"Asia/Tokyo"`, "model", `"demo/demo"`, "tools", `{"read":"off"}`, "instructions", `"speak German"`))
	if e.Instructions != "be brief\n\nbe kind\n\nspeak German" || e.Zone.String() != "Asia/Tokyo" || e.Model != "demo/demo" || e.SpendLimitUSD != 2.5 {
		t.Errorf("%+v", e)
	}
	if len(e.Admins) != 2 || e.Admins[0] != "U1" || e.Admins[1] != "U2" {
		t.Errorf("admins %v", e.Admins)
	}
	for tool, want := range map[string]bool{"bash": true, "write": false, "read": false, "edit": true} {
		if e.On(tool) != want {
			t.Errorf("%s is on: %v", tool, e.On(tool))
		}
	}
}

func TestTheDayBeginsInTheOfficesZone(t *testing.T) {
	t.Parallel()
	e := settings.Effective(config.Settings{}, "slack", nil, stored("timezone", `"Asia/Tokyo"`))
	now := time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC) // 5 in the morning of the next day in Tokyo
	if got := e.Today(now); !got.Equal(time.Date(2026, 11, 30, 15, 0, 0, 0, time.UTC)) {
		t.Errorf("the day began at %s", got.UTC())
	}
}

func TestWhatCannotBeReadIsNotSet(t *testing.T) {
	t.Parallel()
	e := settings.Effective(config.Settings{}, "slack", nil, stored("timezone", `"Mars/Olympus"`, "spend-limit", `"much"`, "tools", `[]`))
	if e.Zone != time.UTC || e.SpendLimitUSD != 0 || !e.On("bash") {
		t.Errorf("%+v", e)
	}
}
