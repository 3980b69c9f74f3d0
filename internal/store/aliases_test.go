package store_test

import (
	"testing"

	"github.com/geminixiang/mikan/internal/store/storetest"
)

func TestAConversationKeepsItsFirstIDThroughEveryLaterOne(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for _, step := range [][2]string{{"-1", "-1001"}, {"-1001", "-1002"}, {"-1", "-1001"}} { // the last is a repeat
		if err := s.Alias(t.Context(), "telegram", step[0], step[1]); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]string{"-1": "-1", "-1001": "-1", "-1002": "-1", "-7": "-7"} {
		if got, err := s.FirstID(t.Context(), "telegram", id); err != nil || got != want {
			t.Errorf("the first id of %s is %s, %v; want %s", id, got, err, want)
		}
	}
	for first, want := range map[string]string{"-1": "-1002", "-7": "-7"} {
		if got, err := s.NewestID(t.Context(), "telegram", first); err != nil || got != want {
			t.Errorf("the newest id of %s is %s, %v; want %s", first, got, err, want)
		}
	}
	if got, err := s.FirstID(t.Context(), "slack", "-1001"); err != nil || got != "-1001" {
		t.Errorf("another platform's id became %s, %v", got, err)
	}
}
