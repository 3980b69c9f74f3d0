// Package schedule makes Temporal Schedules of the tasks that the database has, and starts their runs.
package schedule

import (
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/geminixiang/mikan/internal/fault"
)

// parser reads what Temporal understands, too: five fields, or six with seconds first.
var parser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// Check tells why a cron expression or a time zone cannot be used; the error is invalid.
//
// Times are read in the zone as its clocks show them: a task at an hour that the clocks leave out in spring is not done
// on that day, and one at an hour that they repeat in autumn is done once for each field that matches.
func Check(expression, zone string) error {
	_, err := parse(expression, zone)
	return err
}

func parse(expression, zone string) (cron.Schedule, error) {
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "" || zone == "Local" {
		return nil, fault.New(fault.Invalid, "%q is no time zone; write a name like Europe/Berlin or UTC", zone)
	}
	if strings.Contains(expression, "TZ=") || strings.HasPrefix(expression, "@every") {
		return nil, fault.New(fault.Invalid, "%q is no cron expression of five fields, or six with seconds first", expression)
	}
	parsed, err := parser.Parse(expression)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%q is no cron expression of five fields, or six with seconds first", expression)
	}
	return zoned{parsed, location}, nil
}

// zoned reads a schedule in a zone.
type zoned struct {
	cron.Schedule
	zone *time.Location
}

// Next implements cron.Schedule.
func (z zoned) Next(after time.Time) time.Time { return z.Schedule.Next(after.In(z.zone)) }

// Next is the first time after a moment that an expression fires in its zone; zero when there is none within five years.
func Next(expression, zone string, after time.Time) (time.Time, error) {
	parsed, err := parse(expression, zone)
	if err != nil {
		return time.Time{}, err
	}
	return parsed.Next(after), nil
}
