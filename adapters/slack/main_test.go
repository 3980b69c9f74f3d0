package slack_test

import (
	"testing"

	"github.com/geminixiang/mikan/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Abreast("5")
	m.Run()
}
