package store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/testenv"
)

// onSmallDisk makes a store whose tables are on a file system of 4 MB, and tells where that is.
func onSmallDisk(t *testing.T) (s *store.Store, disk string) {
	t.Helper()
	url := testenv.PostgresURL(t)
	admin, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	var data string
	if err := admin.Pool().QueryRow(t.Context(), `SHOW data_directory`).Scan(&data); err != nil {
		t.Skipf("the server does not tell where its data is: %v", err)
	}
	info, err := os.Stat(data)
	if err != nil {
		t.Skipf("the server is on another machine: %v", err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	disk, err = os.MkdirTemp("/tmp", "mikan-small-disk-") // a test's own directories are closed to the server's user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(disk) })
	options := fmt.Sprintf("size=4m,uid=%d,gid=%d,mode=0700", owner.Uid, owner.Gid)
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, options); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	space := strings.ReplaceAll(filepath.Base(disk), "-", "_")
	if _, err := admin.Pool().Exec(t.Context(), fmt.Sprintf(`CREATE TABLESPACE %s LOCATION '%s'`, space, disk)); err != nil {
		t.Skipf("the server's user may not make a tablespace: %v", err)
	}
	var schema string
	if err := admin.Pool().QueryRow(t.Context(), `SELECT current_schema`).Scan(&schema); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, sql := range []string{`DROP SCHEMA ` + schema + ` CASCADE`, `CREATE SCHEMA ` + schema, `DROP TABLESPACE ` + space} {
			if _, err := admin.Pool().Exec(context.WithoutCancel(t.Context()), sql); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
		}
	})
	glue := "?"
	if strings.Contains(url, "?") {
		glue = "&"
	}
	return storetest.At(t, url+glue+"default_tablespace="+space+"&temp_tablespaces="+space), disk
}

func TestADatabaseWithoutRoomTakesNothingByHalvesAndSaysSoUntilItHasSome(t *testing.T) {
	t.Parallel()
	s, disk := onSmallDisk(t)
	filler := filepath.Join(disk, "filler")
	file, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for page := make([]byte, 4096); err == nil; {
		_, err = file.Write(page)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for said.Len() < 100_000 { // what Postgres cannot make smaller
		said.WriteString(rand.Text())
	}
	receive := func() (bool, error) {
		return s.Receive(t.Context(), store.Arrival{
			Office: store.Office{Key: "o", Platform: "slack", ConversationID: "C1", Audience: store.Shared},
			Message: store.ChatMessage{
				OfficeKey: "o", MessageID: "1", SessionKey: "C1", AuthorID: "U1", AuthorKind: store.AuthorHuman,
				Kind: store.ChatMessageKind, Text: said.String(), SentAt: time.Now(),
			},
			Row: &store.InboxRow{OfficeKey: "o", SessionKey: "C1", Kind: store.InboxTrigger, Trigger: run.Human, MessageID: "1"},
		})
	}
	rows := func() (n int) {
		t.Helper()
		err := s.Pool().QueryRow(t.Context(), `SELECT (SELECT count(*) FROM offices) + (SELECT count(*) FROM chat_log) + (SELECT count(*) FROM inbox)`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("before anything is written: %v", err)
	}
	if _, err := receive(); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("a message gives %v, want that it is delivered again", err)
	}
	if n := rows(); n != 0 {
		t.Errorf("%d rows of it are there", n)
	}
	if err := s.Ping(t.Context()); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("the database is said to be well: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if fresh, err := receive(); err != nil || !fresh || rows() != 3 {
		t.Errorf("the message delivered again: %v, %v, %d rows", fresh, err, rows())
	}
}
